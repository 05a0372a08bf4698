"""What the folder of one process says without being read: its manifest, and the last records of its files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import settings
from otel_rl.flight_recorder import files, layout, reader
from otel_rl.flight_recorder.copies import COPY
from otel_rl.process import lifetime
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader import end_states, last_metrics, uncaught_exceptions
from otel_rl.store.reader.end_states import EndState
from otel_rl.store.reader.locate import STORE_FILE, rotation_order
from otel_rl.store.reader.otlp import records
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.reader.processes import MANIFEST, from_folder
from otel_rl.store.reader.records import Log, Point
from otel_rl.store.reader.run_records import (
    LoggedValue,
    logged_in_step,
    loss_of,
    result_of,
    reward_of,
    reward_of_rollouts,
    score_of,
)
from otel_rl.store.reader.tails import last_moment, last_step, lines_from_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.process.exit_records import Exit
    from otel_rl.store.reader.otlp_values import Attributes
    from otel_rl.store.reader.processes import Process
    from otel_rl.store.reader.records import Record
    from otel_rl.store.reader.uncaught_exceptions import UncaughtException

#: Most bytes that are read of the end of a file.
_MOST = 1 << 20
#: Most records of steps in which a reward is looked for: a trainer may log its values with every tenth step.
_STEPS = 32
_LOGS, _ERRORS, _METRICS = "logs", "logs-errors", "metrics"


class FoundEnd(NamedTuple):
    """How a process ended; ``words`` follow its name, ``time`` is ns since the epoch."""

    state: EndState
    words: str
    time: int


@dataclass
class ProcessFolder:
    """The folder of one process; ``files`` has the last file of each stream."""

    path: Path
    process: Process
    files: dict[str, Path]

    @property
    def started(self) -> int:
        """Its start in ns since the epoch; 0 where that is not known."""
        return self.process.number("started_unix_nano") or 0

    def value(self, key: str) -> Any:
        """Return a value of its manifest; None without one."""
        return (self.process.manifest or {}).get(key)

    @cached_property
    def last_sign(self) -> int:
        """When it ended or made its last record, in ns since the epoch; 0 where nothing says so.

        Times of files are those of a copy where the folder was copied, so they count only without records.
        """
        if ended := self.process.number("ended_unix_nano"):
            return ended
        latest = max(self.files.values(), key=modified, default=None)
        moment = last_moment(latest) if latest is not None else 0
        return max(moment, self.started) or modified(latest or self.path / MANIFEST)

    @cached_property
    def values(self) -> last_metrics.LastMetrics:
        """The last values of what a list shows."""
        found = last_metrics.LastMetrics()
        for point in self._last(_METRICS, ""):
            if isinstance(point, Point):
                found.add(point)
        return found

    @property
    def step(self) -> int | None:
        """The last step that is recorded; log records are written more often than metrics."""
        step = self.values.step
        # The last metrics of SDK 1.44 lack gauges that were not set again.
        logs = None if self._has_end and step is not None else self.files.get(_LOGS)
        steps = (step, last_step(logs) if logs is not None else None)
        return max((step for step in steps if step is not None), default=None)

    @cached_property
    def _recorded_end(self) -> Log | None:
        return next((log for log in self._last(_LOGS, events.RL_RUN_END.name) if isinstance(log, Log)), None)

    @property
    def result(self) -> list[LoggedValue]:
        """What it had logged at its end; empty before that."""
        return result_of(self._recorded_end) if self._has_end and self._recorded_end is not None else []

    @cached_property
    def last_logged(self) -> tuple[LoggedValue | None, LoggedValue | None]:
        """Reward and loss of the newest steps that have them, as their logs say: metrics are written less often.

        Without a logged reward it is that of the newest rollouts.
        """
        newest: dict[str, LoggedValue] = {}
        reward = None
        for log in islice(self._each(events.RL_STEP.name), _STEPS):
            logged = {value.key: value for value in logged_in_step(log)} if isinstance(log, Log) else {}
            if reward is not None and logged.keys() <= newest.keys():
                # The steps before log the same again.
                break
            newest = logged | newest
            reward = reward_of([*newest.values()])
        if reward is None:
            rows = next((log for log in self._each(events.RL_TRAJECTORIES.name) if isinstance(log, Log)), None)
            reward = reward_of_rollouts(rows) if rows is not None else None
        return reward, loss_of([*newest.values()])

    @property
    def scored(self) -> LoggedValue | None:
        """The reward of a loop that logs none: the mean of its newest step's scores outside of all rollouts."""
        scores: list[float] = []
        newest = None
        for log in self._each(events.GEN_AI_EVALUATION_RESULT.name):
            score = score_of(log) if isinstance(log, Log) else None
            if score is None:
                continue
            newest = score.last_step if newest is None else newest
            if score.last_step != newest:
                break
            scores.append(score.last or 0.0)
        return LoggedValue("reward", sum(scores) / len(scores), newest) if scores else None

    @cached_property
    def part(self) -> str:
        """The part of the run that it is in, or was in at its end, for a sentence; empty where no ring tells of one."""
        own = self.process.lifetime
        if own is None:
            return ""
        directory, run_id = Path(settings.current().ring_directory).expanduser(), self.value("run_id")
        paths = [*directory.glob(f"{files.prefix(run_id)}*-{own.pid}*{layout.SUFFIX}"), self.path / COPY]
        for path in paths:
            with suppress(reader.UnreadableRing, OSError):
                ring = reader.read(path, {os.geteuid(), self.path.stat().st_uid})
                if ring.lifetime == own:
                    part = ring.part()
                    return part.words if part is not None else ""
        return ""

    @property
    def _has_end(self) -> bool:
        return self.process.number("ended_unix_nano") is not None or bool(self.process.clean_exit)

    def end(self, seen: Exit | None, *, asks: bool = True) -> FoundEnd:
        """Return how it ended, or that it runs, in the words of the report.

        Args:
            seen: How its parent saw it end.
            asks: Whether its log is read for the signal or the exception that ended it.
        """
        own = self.process.lifetime
        if self.process.imported_from:
            return FoundEnd(*end_states.imported(self.process), self.last_sign)
        if not self._has_end:
            is_alive = lifetime.is_alive(own) if own is not None else None
            where = f", {self.part}" if asks and is_alive is False and self.part else ""
            state, said = end_states.unrecorded(seen, is_alive, where, is_of_ray=self.process.is_of_ray)
        elif not asks or (self.process.clean_exit and self.process.exit_status == 0 and seen is None):
            state, said = end_states.recorded(self.process, "", None, seen)
        else:
            said_of = self._recorded_end.attributes if self._recorded_end is not None else {}
            signal = str(said_of.get(names.RL_RUN_END_SIGNAL) or "")
            status = int_or_none(said_of.get(names.PROCESS_EXIT_CODE))
            state, said = end_states.recorded(self.process, signal, status, seen)
        exception = self._exception() if asks and state.is_bad else None
        if exception is not None and exception.is_interrupt:
            return FoundEnd(EndState.STOPPED, uncaught_exceptions.interrupted(exception), exception.time)
        if exception is not None:
            is_training = self.values.steps is not None
            return FoundEnd(EndState.FAILED, uncaught_exceptions.failed(exception, is_training), exception.time)
        return FoundEnd(state, said, self.last_sign if self._has_end else end_states.moment(seen, self.last_sign))

    def _exception(self) -> UncaughtException | None:
        """Return the exception that ended it: of a notebook the last cell's, where no other cell came after it."""
        end = self._recorded_end.attributes if self._has_end and self._recorded_end is not None else {}
        for log in self._last(_ERRORS, events.RL_PROCESS_EXCEPTION.name, _LOGS):
            if isinstance(log, Log):
                exception = uncaught_exceptions.exception_of(log)
                is_last = exception.cell is None or end.get(names.ERROR_TYPE) == exception.kind
                if is_last and not exception.thread:
                    return exception
        return None

    def _of(self, resource: Attributes) -> Process:
        self.process.resource.update(resource)
        return self.process

    def _last(self, stream: str, event: str, other: str = "") -> Iterator[Record]:
        """Yield the metrics, or records of ``event``, in the last line of ``stream`` that has them, the last first.

        Where ``stream`` has none, those of ``other``.
        """
        for name in filter(None, (stream, other)):
            lines = (last_metrics.parsed(line, event) for line in self._lines(name, event))
            request = next(filter(None, lines), None)
            if request is not None:
                yield from reversed(list(records(request, self._of)))

    def _each(self, event: str) -> Iterator[Record]:
        """Yield the log records of ``event``, the last one first."""
        for line in self._lines(_LOGS, event):
            for request in last_metrics.each_parsed(line, event):
                yield from reversed(list(records(request, self._of)))

    def _lines(self, stream: str, event: str) -> Iterator[bytes]:
        """Yield the lines of ``stream`` that name metrics, or ``event``, the last one first."""
        path, needle = self.files.get(stream), event.encode()
        with suppress(OSError):
            for line in lines_from_end(path, _MOST) if path is not None else ():
                if needle in line:
                    yield line


def doing(ends: Iterable[tuple[ProcessFolder, FoundEnd]]) -> str:
    """Return the part of the run in which the first of these processes is, or was when it was stopped."""
    states = EndState.RUNNING, EndState.STOPPED
    return next((folder.part for folder, end in ends if end.state in states and folder.part), "")


def look_into(path: Path) -> ProcessFolder | None:
    """Return what lies in ``path``; None where that is no folder of a process.

    Raises:
        OSError: it cannot be listed.
    """
    listed = [entry.name for entry in os.scandir(path)]
    files: dict[str, Path] = {}
    for file in sorted((path / name for name in listed if STORE_FILE.fullmatch(name)), key=rotation_order):
        files[file.name.rpartition("-")[0]] = file
    if not files and MANIFEST not in listed:
        return None
    return ProcessFolder(path, from_folder(path), files)


def modified(place: Path | os.DirEntry[str]) -> int:
    """Return when a file or folder was changed last, in ns since the epoch; 0 where that cannot be seen."""
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
