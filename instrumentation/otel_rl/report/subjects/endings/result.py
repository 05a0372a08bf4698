"""What the run came to: from the end of the leading process, else from what was logged until it was killed."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

from otel_rl.health.reward_columns import REWARD
from otel_rl.report.core import human
from otel_rl.report.core.collected import asked_once
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.run_records import LoggedValue, result_of, reward_of
from otel_rl.training.results import Results

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Process

#: Values in the head of the page.
_SHOWN = 3
#: In the order in which they were first logged; the last value of a key of several loops comes last.
_VALUES = """
SELECT process, key, step, value FROM
  (SELECT *, lowest_step AS step, lowest AS value, 0 AS is_last, abs(logged_key) AS place FROM logged_key
   UNION ALL SELECT *, highest_step, highest, 0, abs(logged_key) FROM logged_key
   UNION ALL SELECT *, last_step, last, 1, time FROM logged_key)
WHERE is_last OR value IS NOT NULL ORDER BY is_last, is_made, place"""
_SCORES = """
SELECT step, avg(value) FROM scores WHERE sample IS NULL AND kind = 'score' AND step IS NOT NULL AND abs(value) < 9e999
GROUP BY step ORDER BY step"""


@asked_once
def values(collected: Collected) -> list[LoggedValue]:
    """Return the last and best values of the processes of the latest attempt, keys that have a best value first.

    Of a key that several log it is that of the process that logged most: of slime several log, keys of their own.
    """
    recorded = {log.process: result_of(log) for log in collected.tables.events(events.RL_RUN_END.name)}
    of_process = _logged(collected) | {process: result for process, result in recorded.items() if result}
    latest = [result for process, result in of_process.items() if process.attempt not in collected.superseded]
    latest.sort(key=len, reverse=True)
    merged: dict[str, LoggedValue] = {}
    for value in chain.from_iterable(latest):
        merged.setdefault(value.key, value)
    if reward_of(list(merged.values())) is None and (scored := _scored(collected)) is not None:
        merged[scored.key] = scored
    return sorted(merged.values(), key=lambda value: value.best is None)


def _scored(collected: Collected) -> LoggedValue | None:
    """Return the reward of a loop that logs none, and scores outside of all rollouts: the mean of each step."""
    means = [(mean, step) for step, mean in collected.tables.rows(_SCORES)]
    if not means:
        return None
    (last, last_step), (best, best_step) = means[-1], max(means)
    return LoggedValue(REWARD, last, last_step, best, best_step)


def _logged(collected: Collected) -> dict[Process, list[LoggedValue]]:
    results: dict[int, Results] = {}
    for process, key, step, value in collected.tables.stream(_VALUES):
        algorithm = collected.tables.process(process).identity(names.RL_ALGORITHM)
        values = {key: math.nan if value is None else value}
        results.setdefault(process, Results()).add(step, values, algorithm)
    return {
        collected.tables.process(process): [
            LoggedValue(key, one.last, one.last_step, one.best, one.best_step) for key, one in of_process.items()
        ]
        for process, of_process in results.items()
    }


def words(collected: Collected) -> str:
    """Return the values of the shortest keys that have a best one, ``""`` without any."""
    judged = [value for value in values(collected) if value.best is not None]
    return ", ".join(
        _words(value, scalars.of_run(collected).counts(value.key))
        for value in sorted(judged, key=lambda value: len(value.key))[:_SHOWN]
    )


def _words(value: LoggedValue, counts: str) -> str:
    last = f"{value.key} {_number(value.last)}"
    if value.best == value.last or value.best_step is None:
        return last
    return f"{last} (best {_number(value.best)} at {counts} {value.best_step})"


def _number(value: float | None) -> str:
    return str(value) if value is None or not math.isfinite(value) else human.short_number(value)
