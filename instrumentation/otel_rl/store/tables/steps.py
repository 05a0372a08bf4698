"""Where the time of the steps goes: what of it lies in which phase, in none, and between the steps.

What happens between two steps that were guessed, or taken from a log, gets the number of the later one here.

Phases are moved from ``new_phase`` to ``phase`` once their trace is read. Those of a trace that goes on are moved again
with what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.semconv.attributes import RlLoopSourceValues as Source
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.tables import rollups

if TYPE_CHECKING:
    import sqlite3

_NANOSECONDS = 1e9
#: The step that a phase is asked for by: what is in none comes last.
IN_NO_STEP = (1 << 63) - 1
OF_STEP = f"coalesce(counts_to, {{of}}step, {IN_NO_STEP})"
_TOUCHED_PHASES = f"""
INSERT INTO touched_step SELECT process, loop, restarts, {OF_STEP.format(of="")} FROM phase
WHERE trace IN touched_trace"""
_TOUCHED_STEPS = """
INSERT INTO touched_step SELECT process, loop, restarts, step FROM step
WHERE trace IN touched_trace AND step IS NOT NULL"""
_CHANGED = f"""
SELECT attempt, loop, restarts, min(step), max(CASE WHEN step < {IN_NO_STEP} THEN step END)
FROM touched_step JOIN process USING (process) GROUP BY 1, 2, 3"""
#: Quicker to make of many rows at once, and for queries that join phases to steps.
_BY_TRACE = "CREATE INDEX IF NOT EXISTS phases_by_trace ON phase (trace)"
_BY_END = "CREATE INDEX IF NOT EXISTS steps_by_end ON step (process, ended)"
_OUTSIDE = "CREATE INDEX IF NOT EXISTS phases_in_no_step ON phase (process, started) WHERE step IS NULL"
#: Of a run that is followed.
_INDEXES = (
    _BY_TRACE,
    "CREATE INDEX IF NOT EXISTS steps_by_trace ON step (trace)",
    f"CREATE INDEX IF NOT EXISTS phases_by_step ON phase (loop, restarts, {OF_STEP.format(of='')})",
    "CREATE INDEX IF NOT EXISTS steps_by_number ON step (loop, restarts, step)",
)
#: What was read of a trace before is looked at again with what is new of it.
_AGAIN = (
    "CREATE TEMP TABLE IF NOT EXISTS touched_step (process INTEGER, loop TEXT, restarts INTEGER, step INTEGER)",
    "DELETE FROM touched_step",
    _TOUCHED_PHASES,
    "INSERT INTO new_phase SELECT {raw} FROM phase WHERE trace IN touched_trace",
    "DELETE FROM phase WHERE trace IN touched_trace",
)
_TOUCHED = (
    "CREATE TEMP TABLE IF NOT EXISTS touched_trace (trace TEXT PRIMARY KEY)",
    "DELETE FROM touched_trace",
    "INSERT OR IGNORE INTO touched_trace SELECT trace FROM new_phase",
    "INSERT OR IGNORE INTO touched_trace SELECT trace FROM step WHERE id > ?1",
)
_ANY_TOUCHED = "SELECT 1 FROM touched_trace LIMIT 1"
#: Phases that are no part of another one.
_WHOLE = "reward IS NULL AND NOT is_suspended"
#: Seconds of the phases that lie in a span: those at once count once.
_INSIDE = (
    "CREATE TEMP TABLE IF NOT EXISTS inside (trace TEXT, span TEXT, seconds REAL, PRIMARY KEY (trace, span))",
    "DELETE FROM inside",
    """
    INSERT INTO inside SELECT trace, parent, sum(more) FROM
      (SELECT trace, parent, max(ended - max(started, coalesce(max(ended) OVER before, started)), 0) / 1e9 AS more
       FROM new_phase WINDOW before AS (PARTITION BY trace, parent ORDER BY started, ended
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    GROUP BY trace, parent""",
)
#: Phases inside of one of their own name: all those around a phase are looked at.
_INNER = (
    """
    CREATE TEMP TABLE IF NOT EXISTS outer_phase
    (trace TEXT, span TEXT, parent TEXT, name TEXT, PRIMARY KEY (trace, span))""",
    "DELETE FROM outer_phase",
    f"""
    INSERT OR IGNORE INTO outer_phase SELECT n.trace, n.span, n.parent, n.name
    FROM new_phase n JOIN inside i ON i.trace = n.trace AND i.span = n.span WHERE {_WHOLE}""",
    "CREATE TEMP TABLE IF NOT EXISTS inner_phase (id INTEGER PRIMARY KEY)",
    "DELETE FROM inner_phase",
    f"""
    INSERT INTO inner_phase
    WITH RECURSIVE around AS (
      SELECT n.rowid AS id, n.name, o.trace, o.parent, o.name = n.name AS is_found
      FROM new_phase n JOIN outer_phase o ON o.trace = n.trace AND o.span = n.parent WHERE {_WHOLE}
      UNION SELECT id, a.name, o.trace, o.parent, o.name = a.name
      FROM around a JOIN outer_phase o ON o.trace = a.trace AND o.span = a.parent WHERE NOT is_found)
    SELECT id FROM around WHERE is_found""",
)
_MOVE = """
WITH covered AS (
  SELECT new_phase.rowid AS id, new_phase.*,
         max(ended - max(started, coalesce(max(ended) OVER before, started)), 0) / 1e9 AS more,
         max(ended - max(started, coalesce(max(ended) OVER alike, started)), 0) / 1e9 AS of_phase
  FROM new_phase
  WINDOW before AS (PARTITION BY trace, parent ORDER BY started, ended
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
         alike AS (PARTITION BY trace, parent, name ORDER BY started, ended
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
of_step AS (SELECT process, trace, min(loop) AS loop, max(restarts) AS restarts FROM step
            WHERE NOT is_root {of_touched} GROUP BY process, trace)
INSERT INTO phase
SELECT NULL, {raw}, coalesce(of_step.loop, (SELECT loop FROM step s WHERE {latest}), ''),
       coalesce(of_step.restarts, (SELECT restarts FROM step s WHERE {latest}), 0),
       CASE WHEN NOT is_of_rollout THEN step END, max(of_phase - coalesce(inside.seconds, 0), 0.0),
       max(of_phase - more, 0.0), c.id IN (SELECT id FROM inner_phase)
FROM covered c LEFT JOIN inside ON inside.trace = c.trace AND inside.span = c.span
     LEFT JOIN of_step ON of_step.process = c.process AND of_step.trace = c.trace"""
_LATEST = "s.process = c.process AND NOT s.is_root AND s.started <= c.started ORDER BY s.started DESC LIMIT 1"
_NEW_STEPS = """
SELECT id, process, loop, is_root, step, started, ended FROM step WHERE id > ? AND step IS NOT NULL
ORDER BY process, ended, started"""
_PLACE = "UPDATE step SET restarts = ?, gap = ? WHERE id = ?"
#: Waits for data outside of steps, which count to the next step of their process.
_WAITS = f"""
SELECT id, process, loop, restarts, ended, own FROM phase
WHERE name = '{Phase.DATA_WAIT}' AND step IS NULL AND counts_to IS NULL ORDER BY process, ended"""
#: Those whose trace goes on.
_PLACED_WAITS = f"""
SELECT own, process, loop, restarts, counts_to FROM phase
WHERE trace IN touched_trace AND name = '{Phase.DATA_WAIT}' AND step IS NULL AND counts_to IS NOT NULL"""
_STEP_OF_WAIT = "SELECT id FROM step WHERE process = ? AND loop = ? AND restarts = ? AND step = ? AND NOT is_root"
_NEXT_STEP = """
SELECT id, step, loop, restarts FROM step WHERE process = ? AND NOT is_root AND step IS NOT NULL AND ended >= ?
ORDER BY ended LIMIT 1"""
_PLACE_WAIT = "UPDATE phase SET counts_to = ?, loop = ?, restarts = ? WHERE id = ?"
_WAITED = "UPDATE step SET gap_waited = gap_waited + ?1, idle = max(idle - ?1, 0.0) WHERE id = ?2"
_TOUCHED_BY_MOVE = f"INSERT INTO touched_step VALUES (?, ?, ?, {IN_NO_STEP})"
_TOUCHED_BY_WAIT = "INSERT INTO touched_step SELECT process, loop, restarts, step FROM step WHERE id = ?"
#: Sources of steps that are known only afterwards, so that no record names them. Each begins where the last one ended.
_MADE_LATER = f"'{Source.GUESSED}', '{Source.LOGGED}'"
_BY_THEIR_END = f"""
CREATE INDEX IF NOT EXISTS later_steps_by_end ON step (process, ended)
WHERE source IN ({_MADE_LATER}) AND NOT is_root"""
_HAS_LATER = f"SELECT 1 FROM step WHERE source IN ({_MADE_LATER}) LIMIT 1"
_ITS_STEP = f"""
(SELECT CASE WHEN s.started <= {{table}}.{{begin}} THEN s.step END FROM step s
 WHERE s.process = {{table}}.process AND s.source IN ({_MADE_LATER}) AND NOT s.is_root AND s.ended >= {{table}}.{{end}}
 ORDER BY s.ended LIMIT 1)"""
_PLACE_PHASES = f"""
UPDATE phase SET counts_to = {_ITS_STEP.format(table="phase", begin="started", end="ended")}
WHERE step IS NULL AND counts_to IS NULL AND NOT is_of_rollout AND name <> '{Phase.DATA_WAIT}'"""
#: Tables of what else belongs to such a step, and the column of the time that decides it.
_OTHERS = (("call", "ended"), ("rollout", "ended"), ("sample", "ended"), ("score", "time"), ("error", "ended"))
_BY_SECOND = ("call", "rollout", "sample")
_FIND_OTHERS = tuple(
    f"""
    INSERT INTO placed SELECT '{table}', id, its FROM
      (SELECT rowid AS id, {_ITS_STEP.format(table=table, begin=at, end=at)} AS its FROM {table}
       WHERE step IS NULL{" AND sample IS NULL" if table == "score" else ""})
    WHERE its IS NOT NULL"""
    for table, at in _OTHERS
)
_PLACE_OTHERS = tuple(
    f"""
    UPDATE {table} SET {"second = NULL, " if table in _BY_SECOND else ""}step =
      (SELECT its FROM placed p WHERE p.of_table = '{table}' AND p.id = {table}.rowid)
    WHERE rowid IN (SELECT id FROM placed WHERE of_table = '{table}')"""
    for table, _ in _OTHERS
)
_PLACED = (
    "CREATE TEMP TABLE IF NOT EXISTS placed (of_table TEXT, id INTEGER, its INTEGER, PRIMARY KEY (of_table, id))",
    "DELETE FROM placed",
    *_FIND_OTHERS,
    rollups.TOUCH.format(
        moments="""
        SELECT NULL AS step, second FROM call JOIN placed ON of_table = 'call' AND id = call.rowid
        UNION ALL SELECT its, NULL FROM placed WHERE of_table = 'call'"""
    ),
    *_PLACE_OTHERS,
    """UPDATE score SET step = (SELECT step FROM sample s WHERE s.sample = score.sample)
       WHERE step IS NULL AND sample IS NOT NULL""",
)
_HAS_PLACED_SAMPLES = "SELECT 1 FROM placed WHERE of_table = 'sample' LIMIT 1"
_REST = f"""
UPDATE step SET
  uncovered = max(seconds - coalesce((SELECT i.seconds FROM inside i WHERE i.trace = step.trace AND i.span = step.span),
                                     0)
                  - coalesce((SELECT sum(own) FROM phase p WHERE step.source IN ({_MADE_LATER}) AND p.step IS NULL
                              AND p.process = step.process AND p.name <> '{Phase.DATA_WAIT}'
                              AND p.started BETWEEN step.started AND step.ended AND p.ended <= step.ended), 0), 0.0),
  idle = max(gap - gap_waited - coalesce((SELECT i.seconds FROM inside i
                                          WHERE i.trace = step.trace AND i.span = step.parent), 0), 0.0)
WHERE NOT is_root {{of_touched}}"""
_RAW = (
    "{of}process, {of}name, {of}step, {of}reward, {of}is_suspended, {of}is_of_rollout, {of}operation, {of}active,"
    " {of}started, {of}ended, {of}seconds, {of}trace, {of}span, {of}parent"
)


class _Last(NamedTuple):
    """The last step of a loop in a process, and how often its numbers had gone back."""

    step: int
    ended: int
    restarts: int


class PlacedSteps:
    """Places what is new; knows the last step of each loop and process from one time to the next."""

    def __init__(self) -> None:
        self._is_first, self._placed = True, 0
        self._last: dict[tuple[int, str, int], _Last] = {}
        #: Whether samples got a step the last time.
        self.has_placed_samples = False
        #: First and last of the steps that have changed with what was placed last, by attempt, loop and restarts, the
        #: last one None for what is in no step; None where all are new.
        self.changed: dict[tuple[str, str, int], tuple[int, int | None]] | None = None

    def place(self, database: sqlite3.Connection) -> None:
        """Place the steps and phases that were added since the last time."""
        new = [(*self._follow(row), row["id"]) for row in database.execute(_NEW_STEPS, (self._placed,))]
        database.executemany(_PLACE, new)
        for statement in _TOUCHED:
            database.execute(statement, (self._placed,) if "?1" in statement else ())
        waited = {} if self._is_first else _taken_back_waits(database)
        for statement in (*(() if self._is_first else _AGAIN), *_INSIDE, *_INNER):
            database.execute(statement.format(raw=_RAW.format(of="")))
        of_touched = "" if self._is_first else "AND trace IN touched_trace"
        database.execute(_MOVE.format(raw=_RAW.format(of="c."), latest=_LATEST, of_touched=of_touched))
        database.execute("DELETE FROM new_phase")
        database.execute(_BY_TRACE)
        database.execute(_OUTSIDE)
        moved = _place_waits(database, waited)
        if database.execute(_HAS_LATER).fetchone() is not None:
            for statement in (_BY_THEIR_END, _PLACE_PHASES, *_PLACED):
                database.execute(statement)
            self.has_placed_samples = database.execute(_HAS_PLACED_SAMPLES).fetchone() is not None
        if not self._is_first:
            database.executemany(_TOUCHED_BY_MOVE, moved)
            database.executemany(_TOUCHED_BY_WAIT, [(step,) for step, seconds in waited.items() if seconds])
        database.execute(_REST.format(of_touched=of_touched))
        self.changed = None if self._is_first else _changed(database)
        self._is_first = self._is_first and database.execute(_ANY_TOUCHED).fetchone() is None
        self._placed = database.execute("SELECT coalesce(max(id), 0) FROM step").fetchone()[0]

    def _follow(self, row: sqlite3.Row) -> tuple[int, float | None]:
        """Return how often the numbers had gone back before a step, and the seconds since the one before it."""
        key = row["process"], row["loop"], row["is_root"]
        last = self._last.get(key)
        if last is None:
            self._last[key] = _Last(row["step"], row["ended"], 0)
            return 0, None
        # Several may run at once: what began before the other's end is no restart.
        is_restart = row["step"] < last.step and row["started"] >= last.ended
        restarts = last.restarts + is_restart
        if is_restart or row["step"] >= last.step:
            self._last[key] = _Last(row["step"], row["ended"], restarts)
        follows = row["step"] == last.step + 1 and row["started"] >= last.ended
        return restarts, (row["started"] - last.ended) / _NANOSECONDS if follows else None


def _changed(database: sqlite3.Connection) -> dict[tuple[str, str, int], tuple[int, int | None]]:
    for statement in (_TOUCHED_PHASES, _TOUCHED_STEPS):
        database.execute(statement)
    return {(attempt, loop, restarts): steps for attempt, loop, restarts, *steps in database.execute(_CHANGED)}


def _taken_back_waits(database: sqlite3.Connection) -> dict[int, float]:
    """Return minus the seconds of waits that must be placed again because their trace grew, by step id."""
    for statement in _INDEXES:
        database.execute(statement)
    waited: dict[int, float] = {}
    for seconds, *place in database.execute(_PLACED_WAITS).fetchall():
        for (step,) in database.execute(_STEP_OF_WAIT, place).fetchall():
            waited[step] = waited.get(step, 0.0) - seconds
    return waited


def _place_waits(database: sqlite3.Connection, waited: dict[int, float]) -> list[tuple[Any, ...]]:
    """Assign waits to the step after them and add their seconds to ``waited``; return the stretches they came from."""
    moved = []
    waits = database.execute(_WAITS).fetchall()
    if waits:
        database.execute(_BY_END)
    for wait in waits:
        step = database.execute(_NEXT_STEP, (wait["process"], wait["ended"])).fetchone()
        if step is not None:
            database.execute(_PLACE_WAIT, (step["step"], step["loop"], step["restarts"], wait["id"]))
            waited[step["id"]] = waited.get(step["id"], 0.0) + wait["own"]
            moved.append((wait["process"], wait["loop"], wait["restarts"]))
    database.executemany(_WAITED, [(seconds, step) for step, seconds in waited.items() if seconds])
    return moved
