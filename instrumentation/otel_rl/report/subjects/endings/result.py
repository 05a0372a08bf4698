"""What the run came to: from the end of the leading process, else from what was logged until it was killed."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.subjects.training.aggregate import Scalars
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.reader.run_records import LoggedValue, result_of
from otel_rl.training.results import Results

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log, Process

#: Processes of which the values are kept, and values in the head of the page.
_PROCESSES, _SHOWN = 64, 3


class RunResult:
    """Last and best values by process."""

    def __init__(self) -> None:
        self._logged: dict[Process, Results] = {}

    def add_log(self, log: Log) -> None:
        """Take in a log call of a trainer; others are ignored."""
        if log.event == events.RL_STEP.name and isinstance(log.body, dict):
            results = self._logged.get(log.process)
            if results is None and len(self._logged) < _PROCESSES:
                results = self._logged[log.process] = Results()
            if results is not None:
                step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
                results.add(step, log.body, log.process.identity(names.RL_ALGORITHM))

    def values(self, collected: Collected) -> list[LoggedValue]:
        """Return those of the processes of the latest attempt, keys that have a best value first.

        Of a key that several log it is that of the process that logged most: of slime several log, keys of their own.
        """
        logged = {
            process: [
                LoggedValue(key, one.last, one.last_step, one.best, one.best_step) for key, one in results.items()
            ]
            for process, results in self._logged.items()
        }
        recorded = {log.process: result_of(log) for log in collected.tables.events(events.RL_RUN_END.name)}
        of_process = logged | {process: values for process, values in recorded.items() if values}
        latest = [values for process, values in of_process.items() if process.attempt not in collected.superseded]
        latest.sort(key=len, reverse=True)
        merged: dict[str, LoggedValue] = {}
        for value in chain.from_iterable(latest):
            merged.setdefault(value.key, value)
        return sorted(merged.values(), key=lambda value: value.best is None)

    def words(self, collected: Collected) -> str:
        """Return the values of the shortest keys that have a best one, ``""`` without any."""
        judged = [value for value in self.values(collected) if value.best is not None]
        return ", ".join(
            _words(value, collected[Scalars].counts(value.key))
            for value in sorted(judged, key=lambda value: len(value.key))[:_SHOWN]
        )


def _words(value: LoggedValue, counts: str) -> str:
    last = f"{value.key} {_number(value.last)}"
    if value.best == value.last or value.best_step is None:
        return last
    return f"{last} (best {_number(value.best)} at {counts} {value.best_step})"


def _number(value: float | None) -> str:
    return str(value) if value is None or not math.isfinite(value) else human.short_number(value)
