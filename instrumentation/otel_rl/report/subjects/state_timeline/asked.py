"""What the tables of a run say of its lanes: their stretches, in order of time, and the moments of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.subjects.state_timeline import states
from otel_rl.store.tables.load import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.tables import RunTables

#: Moments of steps and of weight syncs that are on the page.
STEPS = 500
#: Times the length of a step by which its ranks may be apart: beyond that its number came again.
_APART = 10
#: After all moments.
END = (1 << 63) - 1
#: Begin of the time that is drawn, and how far from the first record a record may be: others have a wrong clock.
_EARLIEST, _FARTHEST = 946_684_800 * 10**9, 400 * 86_400 * 10**9
#: Groups of lanes: those of ranks, of engines in the processes, and of model servers.
RANKS, ENGINES, SERVERS = range(3)
GROUPS = 3
_SLEEPS, _WAKES = "operation LIKE '%sleep%'", "operation LIKE '%wake%'"
#: The time between two steps lies below a step, and that below its phases.
_SPAN, _BASE, _GROUND = range(3)

_FIRST = f"""
SELECT started FROM (SELECT started FROM step UNION ALL SELECT started FROM phase UNION ALL SELECT started FROM call
                     UNION ALL SELECT started FROM rollout) WHERE started > {_EARLIEST} LIMIT 1"""
_MISDATED = """
SELECT count(*) FROM (SELECT started, ended FROM step UNION ALL SELECT started, ended FROM phase
                      UNION ALL SELECT started, ended FROM call UNION ALL SELECT started, ended FROM rollout)
WHERE started <> ended AND NOT ({in_time})"""
_STEP = "coalesce(max(step, -1), -1)"
#: The processes of all attempts share the lane of their rank, and all models of a server its lane.
_LANES_OF = f"""
WITH rank_lane AS (
  SELECT process, {GROUPS} * CASE WHEN rank IS NULL THEN process ELSE min(process) OVER (PARTITION BY role, rank) END
                  + {RANKS} AS lane FROM process),
server_lane AS (
  SELECT callee, {GROUPS} * min(callee) OVER (PARTITION BY place) + {SERVERS} AS lane FROM callee
  WHERE kind = '{MODEL}' AND place <> ''),
drawn AS (
  SELECT lane, started, ended, {states.IN_NO_PHASE} AS state, {_BASE} AS layer, {_STEP} AS step
  FROM step JOIN rank_lane USING (process) WHERE NOT is_root
  UNION ALL
  SELECT lane, started - CAST(round(gap * 1e9) AS INTEGER), started, {states.BETWEEN_STEPS}, {_GROUND}, -1
  FROM step JOIN rank_lane USING (process) WHERE NOT is_root AND gap > 0
  UNION ALL
  SELECT lane, max(c.started, s.started), min(max(c.started, s.started) + CAST(c.seconds * 1e9 AS INTEGER), s.ended),
         {states.COLLECTIVE}, {_SPAN}, {_STEP}
  FROM collective c JOIN step s USING (id) JOIN rank_lane USING (process)
  WHERE NOT is_root AND c.seconds > 0 AND c.seconds <= s.seconds AND c.started < s.ended
  UNION ALL
  SELECT lane, started, ended, {states.OF_PHASE}, {_SPAN}, {_STEP} FROM phase JOIN rank_lane USING (process)
  WHERE NOT is_of_rollout
  UNION ALL
  SELECT {GROUPS} * process + {ENGINES}, started, ended,
         CASE WHEN {_SLEEPS} OR {_WAKES} OR operation LIKE '%load%' THEN {states.LOAD} ELSE {states.WEIGHT_SYNC} END,
         {_SPAN}, {_STEP}
  FROM phase WHERE operation IS NOT NULL
  UNION ALL
  SELECT {GROUPS} * process + {ENGINES}, asleep, started, {states.ASLEEP}, {_BASE}, -1
  FROM (SELECT process, started, operation, lag(CASE WHEN {_SLEEPS} THEN ended END) OVER w AS asleep FROM phase
        WHERE {_SLEEPS} OR {_WAKES} WINDOW w AS (PARTITION BY process ORDER BY started))
  WHERE {_WAKES} AND asleep < started
  UNION ALL
  SELECT {GROUPS} * process + {ENGINES}, started, ended, {states.BUSY}, {_BASE}, {_STEP} FROM call WHERE in_engine
  UNION ALL
  SELECT lane, started, ended, {states.BUSY}, {_BASE}, {_STEP} FROM call JOIN server_lane USING (callee)
  WHERE NOT in_engine AND NOT is_server)"""
_LANES = f"""{_LANES_OF}
SELECT lane, count(*) AS number, min(started) AS start, max(ended) AS "end" FROM drawn
WHERE {{in_time}} AND started >= ? AND started < ? GROUP BY lane ORDER BY lane"""
_STRETCHES = f"""{_LANES_OF}
SELECT lane, started, ended, state, layer, step FROM drawn WHERE {{in_time}} AND ended > ?
ORDER BY lane, started"""
#: What is drawn of new rows begins there; the time between two steps is drawn with the second one.
_BEGIN_OF_NEW = """
SELECT min(started) FROM (
  SELECT started - CAST(coalesce(gap, 0) * 1e9 AS INTEGER) AS started FROM step WHERE id > ?
  UNION ALL SELECT started FROM phase WHERE id > ? UNION ALL SELECT started FROM call WHERE rowid > ?)"""
_LAST_ROWS = """
SELECT (SELECT max(id) FROM step), (SELECT max(id) FROM phase), (SELECT max(rowid) FROM call)"""
#: Of a step whose number came again the latest ranks count, and around the slowest step those of its time.
_WINDOWS = f"""
WITH s AS (SELECT attempt, step, started, ended FROM step JOIN process USING (process)
           WHERE NOT is_root AND step >= 0 AND {{in_time}}),
latest AS (SELECT attempt, step, max(started) AS begin, max(ended - started) AS length, 0 AS is_slowest
           FROM s GROUP BY attempt, step ORDER BY begin DESC LIMIT {STEPS}),
slowest AS (SELECT attempt, step, started, ended - started AS length, 1 FROM s ORDER BY length DESC, started LIMIT 1),
asked AS (SELECT * FROM latest UNION ALL SELECT * FROM slowest)
SELECT is_slowest, attempt, step, min(started), max(ended) FROM asked JOIN s USING (attempt, step)
WHERE started <= begin + {_APART + 1} * length AND ended >= begin - {_APART} * length
GROUP BY is_slowest, attempt, step ORDER BY min(started), max(ended)"""
_SYNCS = f"""
SELECT min(started) AS begin FROM phase JOIN process USING (process)
WHERE name IN ({{phases}}) AND NOT is_of_rollout AND {{in_time}}
GROUP BY attempt, CASE WHEN step >= 0 THEN step ELSE -started END ORDER BY begin DESC LIMIT {STEPS}"""


class Window(NamedTuple):
    """A step, from its begin on the first rank to its end on the last one, in ns since the epoch."""

    attempt: str
    iteration: int
    start: int
    end: int


class LaneRows(NamedTuple):
    """A lane in the tables: its number there, its stretches, their first and last moment."""

    lane: int
    number: int
    start: int
    end: int


def in_time(tables: RunTables) -> str:
    """Return the condition that a row with a begin and an end is of a clock that may be right."""
    first = int(tables.value(_FIRST) or 0)
    return (
        f"ended > started AND started > {_EARLIEST} AND ended - started < {_FARTHEST}"
        f" AND abs(started - {first}) < {_FARTHEST}"
    )


def misdated(tables: RunTables, of_time: str) -> int:
    """Return how many rows are of a wrong clock."""
    return int(tables.value(_MISDATED.format(in_time=of_time)))


def lanes(tables: RunTables, of_time: str, since: int, until: int = END) -> dict[int, LaneRows]:
    """Return what began on each lane from a moment on, and before another one, in the order of :func:`stretches`."""
    rows = map(LaneRows._make, tables.rows(_LANES.format(in_time=of_time), since, until))
    return {row.lane: row for row in rows}


def stretches(tables: RunTables, of_time: str, since: int) -> Iterator[tuple[int, ...]]:
    """Yield lane, begin, end, state, layer and step of stretches that end later, lane by lane, by their begin."""
    yield from tables.stream(_STRETCHES.format(in_time=of_time), since)


def last_rows(tables: RunTables) -> tuple[int, ...]:
    """Return the last rows of the tables that stretches come from."""
    return tuple(row or 0 for row in tables.rows(_LAST_ROWS)[0])


def begin_of_new(tables: RunTables, rows: tuple[int, ...]) -> int:
    """Return when the first stretch of the rows behind ``rows`` began."""
    begin = tables.value(_BEGIN_OF_NEW, *rows)
    return END if begin is None else int(begin)


def windows(tables: RunTables, of_time: str) -> tuple[list[Window], Window | None]:
    """Return the latest steps in the order in which they began, and the one that took a rank the longest."""
    found = [(row[0], Window(*row[1:])) for row in map(tuple, tables.stream(_WINDOWS.format(in_time=of_time)))]
    steps = [window for is_slowest, window in found if not is_slowest]
    slowest = next((window for is_slowest, window in found if is_slowest), None)
    if slowest is not None:
        alike = (one for one in steps if one[:2] == slowest[:2] and one.start <= slowest.start < one.end)
        slowest = next(alike, slowest)
    return steps, slowest


def syncs(tables: RunTables, of_time: str) -> list[int]:
    """Return when the latest weight syncs began, in ns since the epoch."""
    phases = ", ".join(f"'{phase}'" for phase in sorted(states.SYNCS))
    return sorted(row["begin"] for row in tables.rows(_SYNCS.format(in_time=of_time, phases=phases)))
