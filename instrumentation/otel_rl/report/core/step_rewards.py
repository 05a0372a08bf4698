"""Means of the rewards of a loop of the program's own, from the samples of its rollouts: a log call per step.

They are those of :mod:`otel_rl.health.reward_columns`, which the program's own process makes. Of each attempt and loop
the process with the lowest rank counts, as in the health rules. Samples that ended in the workers of its pools are its
own.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.health.reward_columns import (
    DEVIATION,
    EVALUATION,
    MINIMUM_SAMPLES,
    REWARD,
    ROUNDING,
    SUCCESS,
    UNSCORED,
    ZERO_VARIANCE,
)
from otel_rl.store.tables.samples import METRIC, SCORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.tables import RunTables

#: Of a process without a rank: those with one come first.
_NO_RANK = 1 << 31
#: Finished samples with the process that their calls came from and the step that they count to.
_OWNED = f"""
WITH made AS (SELECT DISTINCT process, caller, loop FROM sample WHERE ended_in IS NOT NULL AND status = 'finished'),
called AS (
  SELECT made.*, coalesce((SELECT q.process FROM process q WHERE q.pid = made.caller AND q.host IS p.host
                           AND q.attempt = p.attempt), made.process) AS owner
  FROM made JOIN process p USING (process)),
leading AS (
  SELECT c.*, coalesce(o.rank, {_NO_RANK}) = min(coalesce(o.rank, {_NO_RANK})) OVER of_loop AS leads
  FROM called c JOIN process o ON o.process = c.owner WINDOW of_loop AS (PARTITION BY o.attempt, c.loop)),
owned AS (
  SELECT s.*, l.owner, max(coalesce(s.step, s.ended_in), s.ended_in) AS at,
         coalesce(s.evaluation, 0) AS is_evaluation
  FROM sample s JOIN leading l ON l.leads AND l.process = s.process AND l.loop = s.loop AND l.caller IS s.caller
  WHERE s.ended_in IS NOT NULL AND s.status = 'finished')"""
_PLACE = "owner, loop, restarts, at"
_MEANS = f"""{_OWNED},
told AS (
  SELECT {_PLACE}, time, CASE is_evaluation WHEN 1 THEN '{EVALUATION}' ELSE '{REWARD}' END AS key, '' AS name,
         reward AS value FROM owned
  UNION ALL SELECT {_PLACE}, time, '{SUCCESS}', '', success FROM owned WHERE NOT is_evaluation
  UNION ALL SELECT {_PLACE}, owned.time, kind, name, value FROM owned JOIN score USING (sample)
            WHERE NOT is_evaluation)
SELECT {_PLACE}, key, name, max(time) AS time, count(value) AS number, sum(value) AS total,
       CASE WHEN min(value) = max(value) THEN min(value) ELSE avg(value) END AS mean,
       CASE WHEN min(value) = max(value) THEN 0.0 ELSE sum(value * value) END AS squares
FROM told GROUP BY {_PLACE}, key, name ORDER BY {_PLACE}"""
_GROUPS = f"""{_OWNED},
compared AS (SELECT {_PLACE}, count(reward) AS number, min(reward) AS low, max(reward) AS high FROM owned
             WHERE NOT is_evaluation AND group_id IS NOT NULL GROUP BY {_PLACE}, group_id)
SELECT {_PLACE}, avg(high - low <= {ROUNDING} * max(abs(low), abs(high), 1.0)) AS alike FROM compared
WHERE number >= {MINIMUM_SAMPLES} GROUP BY {_PLACE}"""
_LOGGED = "SELECT process, loop, key FROM logged_key WHERE NOT is_made"
_SAMPLES = f"{_OWNED} SELECT {_PLACE}, sum(NOT is_evaluation) FROM owned GROUP BY {_PLACE}"


class _StepOfLoop(NamedTuple):
    """A step of a loop in a process; ``restarts`` says how often the numbers of the loop had begun again."""

    owner: int
    loop: str
    restarts: int
    step: int


class MadeValues(NamedTuple):
    """What is made for a step: number of its process, loop, step, time and values by key."""

    process: int
    loop: str
    step: int
    time: int
    values: dict[str, float]


def log_calls(tables: RunTables) -> list[MadeValues]:
    """Return a log call for each step, without keys that the program logs itself; those of a loop in order."""
    if tables.value("SELECT 1 FROM sample WHERE ended_in IS NOT NULL LIMIT 1") is None:
        return []
    of_loops: dict[tuple[int, str], list[MadeValues]] = {}
    for call in _log_calls(tables):
        of_loops.setdefault((call.process, call.loop), []).append(call)
    return [call for calls in sorted(of_loops.values(), key=lambda calls: calls[0].time) for call in calls]


def _log_calls(tables: RunTables) -> Iterator[MadeValues]:
    logged = {tuple(row) for row in tables.stream(_LOGGED)}
    alike = {_StepOfLoop(*row[:4]): row[4] for row in tables.stream(_GROUPS)}
    samples = {_StepOfLoop(*row[:4]): row[4] for row in tables.stream(_SAMPLES)}
    scored: set[tuple[int, str]] = set()
    for key, rows in groupby(tables.stream(_MEANS), lambda row: tuple(row[:4])):
        place, means, time = _StepOfLoop(*key), dict[str, float](), 0
        for row in rows:
            time = max(time, row["time"])
            if row["number"]:
                means |= _means(row, samples[place])
        if REWARD in means:
            scored.add(place[:2])
        if place in alike:
            means[ZERO_VARIANCE] = alike[place]
        if place[:2] in scored and samples[place]:
            means[UNSCORED] = 1 - means.pop(_SCORED, 0) / samples[place]
        means.pop(_SCORED, None)
        # Those of functions and metrics come first, as in the program's own process.
        ordered = sorted(means, key=lambda name: ("/" not in name, name != REWARD))
        values = {name: means[name] for name in ordered if (place.owner, place.loop, name) not in logged}
        if values:
            yield MadeValues(place.owner, place.loop, place.step, time, values)


#: Number of the samples with a reward, among the means.
_SCORED = ""


def _means(row: Any, samples: int) -> dict[str, float]:
    key, name, number, mean = row["key"], row["name"], row["number"], row["mean"]
    if key == SCORE:
        return {f"rewards/{name}/mean": mean}
    if key == METRIC:
        return {f"rollout/{name}/mean": mean, f"rollout/{name}/sum": row["total"]}
    if key == SUCCESS and mean == 1 and number < samples:
        # Said of successes only: their mean is no rate.
        return {}
    if key != REWARD:
        return {key: mean}
    deviation = {}
    if number >= MINIMUM_SAMPLES:
        variance = max(row["squares"] - number * mean * mean, 0.0) / (number - 1) if row["squares"] else 0.0
        deviation = {DEVIATION: math.sqrt(variance)}
    return {REWARD: mean, _SCORED: number, **deviation}
