"""What the rollouts did: of each step the longest ones, of the run the latest and the longest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core.stretches import paint
from otel_rl.report.subjects.state_timeline import states
from otel_rl.store.tables import engine_stages
from otel_rl.store.tables.load import AGENT_ROOT, MODEL, ROLLOUT, SERVED_TOOL, SERVICE, TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.stretches import Stretch
    from otel_rl.report.subjects.state_timeline.asked import Window
    from otel_rl.store.tables import RunTables
    from otel_rl.store.tables.engine_stages import EngineStage

#: Rollouts that are kept of a step, of all without a step, and steps whose rollouts are kept.
MOST = 32
_STEPS = 64
#: Calls of a rollout that are drawn.
_CALLS = 256
_ID = 40

_ARE_MARKED = f"SELECT 1 FROM rollout WHERE kind = '{ROLLOUT}' LIMIT 1"
_ROLLOUTS = """
WITH r AS (SELECT rollout.rowid AS rollout, id, attempt, start, step, started, ended
           FROM rollout JOIN process USING (process) WHERE kind = '{kind}' AND {in_time})"""
_LATEST, _LONGEST = "ended DESC, id", "ended - started DESC, ended DESC, id"
_EXTENT = f'{_ROLLOUTS} SELECT count(*) AS number, min(started) AS start, max(ended) AS "end" FROM r'
_FIRST = f"{_ROLLOUTS} SELECT rollout, id, started, ended FROM r ORDER BY {{order}} LIMIT {MOST}"
_OF_STEPS = f"""{_ROLLOUTS},
latest AS (SELECT DISTINCT attempt, step FROM r WHERE step >= 0 ORDER BY start DESC, step DESC LIMIT {_STEPS}),
kept AS (SELECT * FROM latest UNION SELECT ?1, ?2)
SELECT * FROM (SELECT r.*, count(*) OVER (PARTITION BY attempt, step) AS number,
             row_number() OVER (PARTITION BY attempt, step ORDER BY {_LONGEST}) AS place
      FROM r JOIN kept USING (attempt, step))
WHERE place <= {MOST} ORDER BY attempt, step"""
#: LIMIT keeps SQLite from looking for a rollout in all of them.
_PARTS = f"""
WITH place_of (place, rollout) AS (VALUES {{places}}),
drawn AS (SELECT place, trace, id, started, ended, coalesce(max(step, -1), -1) AS step
          FROM place_of JOIN rollout r ON r.rowid = place_of.rollout LIMIT -1),
part AS (
  SELECT trace, rollout, started, ended,
         CASE kind WHEN '{MODEL}' THEN {states.GENERATE} WHEN '{SERVICE}' THEN {states.SERVICE} ELSE {states.TOOL} END
         AS state FROM call JOIN callee USING (callee) WHERE kind IN ('{MODEL}', '{SERVICE}', '{TOOL}', '{SERVED_TOOL}')
  UNION ALL
  SELECT trace, NULL, started, ended, {states.OF_PHASE} FROM phase WHERE is_of_rollout)
SELECT place, started AS begin, ended, {states.BETWEEN_CALLS} AS state, 1 AS layer, step FROM drawn
UNION ALL
SELECT place, max(part.started, drawn.started), min(part.ended, drawn.ended), state, 0, step
FROM part CROSS JOIN drawn ON drawn.trace = part.trace AND coalesce(part.rollout, drawn.id) = drawn.id
WHERE part.ended > part.started AND part.started < drawn.ended AND part.ended > drawn.started
ORDER BY place, begin, layer DESC"""
#: Calls of which an engine reported times.
_CALLS_WITH_TIMES = """
WITH place_of (place, rollout) AS (VALUES {places}),
drawn AS (SELECT place, trace, id FROM place_of JOIN rollout r ON r.rowid = place_of.rollout LIMIT -1)
SELECT place, started, ended, times
FROM drawn CROSS JOIN call ON call.trace = drawn.trace AND coalesce(call.rollout, drawn.id) = drawn.id
WHERE times IS NOT NULL ORDER BY place, started"""


class RolloutLanes(NamedTuple):
    """What a rollout did; ``beneath`` has a lane for each of separate prefill and decode servers."""

    name: str
    stretches: list[Stretch]
    beneath: list[RolloutLanes]


class Chosen(NamedTuple):
    """A rollout in the tables; times in ns since the epoch."""

    rollout: int
    name: str
    start: int
    end: int


StepKey = tuple[str, int]
"""Attempt and iteration."""


@dataclass(slots=True)
class Rollouts:
    """How many there are, their first and last moment, and which of them are chosen, in the order of their begin.

    ``of_steps`` has for each step those that are chosen, and how many it has.
    """

    tables: RunTables
    number: int
    start: int | None
    end: int | None
    latest: list[Chosen]
    longest: list[Chosen]
    of_steps: dict[StepKey, tuple[list[Chosen], int]]

    def drawn(self, chosen: list[Chosen]) -> Iterator[RolloutLanes]:
        """Yield what each did: stages of calls, calls, the shortest first, and between them it waits."""
        if not chosen:
            return
        places = ", ".join(f"({place}, {one.rollout})" for place, one in enumerate(chosen))
        stages = self._stages(places)
        for place, rows in groupby(self.tables.stream(_PARTS.format(places=places)), itemgetter(0)):
            name, of_servers = chosen[place].name[:_ID], stages.get(place, {})
            parts = [tuple(row)[1:] for row in islice(rows, _CALLS + 1)]
            parts += [_part(stage, -1, parts[0][4]) for stage in of_servers.pop("", ())]
            parts.sort(key=lambda part: (part[0], -part[3]))
            beneath = [
                RolloutLanes(f"[{server}] {name}", list(paint(_part(stage, 0, parts[0][4]) for stage in listed)), [])
                for server, listed in of_servers.items()
            ]
            yield RolloutLanes(name, list(paint(parts)), beneath)

    def _stages(self, places: str) -> dict[int, dict[str, list[EngineStage]]]:
        """Return the stages of the requests of each place by server, in the order of their start."""
        found: dict[int, dict[str, list[EngineStage]]] = {}
        for place, start, end, times in map(tuple, self.tables.stream(_CALLS_WITH_TIMES.format(places=places))):
            of_servers = found.setdefault(place, {})
            for stage in engine_stages.of_call(start, end, json.loads(times)):
                listed = of_servers.setdefault(stage.server, [])
                if len(listed) < _CALLS:
                    listed.append(stage)
        for of_servers in found.values():
            for listed in of_servers.values():
                listed.sort(key=lambda stage: stage.start)
        return found


def _part(stage: EngineStage, layer: int, step: int) -> tuple[int, int, int, int, int]:
    return stage.start, stage.end, states.OF_STAGE[stage.kind], layer, step


def of_run(tables: RunTables, in_time: str, slowest: Window | None) -> Rollouts:
    """Return the rollouts of the run; where the program marks none, the outermost calls of agents.

    Those of the slowest step are chosen beside those of the latest ones.
    """
    kind = ROLLOUT if tables.value(_ARE_MARKED) else AGENT_ROOT

    def ask(query: str, *values: Any, **more: str) -> list[Any]:
        return tables.rows(query.format(kind=kind, in_time=in_time, **more), *values)

    key = ("", -1) if slowest is None else slowest[:2]
    of_steps = groupby(ask(_OF_STEPS, *key), lambda row: (row["attempt"], row["step"]))
    [(number, start, end)] = ask(_EXTENT)
    return Rollouts(
        tables,
        number,
        start,
        end,
        latest=_in_order(ask(_FIRST, order=_LATEST)),
        longest=_in_order(ask(_FIRST, order=_LONGEST)),
        of_steps={
            step: (_in_order(listed), listed[0]["number"])
            for step, listed in ((of, list(rows)) for of, rows in of_steps)
        },
    )


def _in_order(rows: list[Any]) -> list[Chosen]:
    chosen = (Chosen(row["rollout"], row["id"], row["started"], row["ended"]) for row in rows)
    return sorted(chosen, key=lambda one: (one.start, one.end))
