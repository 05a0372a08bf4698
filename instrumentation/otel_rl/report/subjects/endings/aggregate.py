"""What the processes themselves said of their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Log

#: Most processes of which the end is kept.
_PROCESSES = 100_000


@dataclass(frozen=True, slots=True)
class RunEnd:
    """An ``rl.run.end``; ``time`` in ns since the epoch."""

    time: int
    signal: str
    status: int | None
    #: Type of the exception that nothing caught.
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """An ``rl.worker.end``, as the cluster has told the driver; ``time`` in ns since the epoch."""

    time: int
    reason: str
    is_expected: bool
    #: Process id of its last process; those before it died, and the cluster started it again.
    pid: int | None


class RunEnds:
    """The end that each process has recorded; a process without one was killed, or runs."""

    def __init__(self) -> None:
        self.by_process: dict[str, RunEnd] = {}
        #: Processes that have recorded their begin.
        self.begun: set[str] = set()
        #: By the id of the worker.
        self.workers: dict[str, WorkerEnd] = {}

    def add_log(self, log: Log) -> None:
        """Take in the begin or the end of a process; other records are ignored."""
        if log.event == events.RL_RUN_START.name and len(self.begun) < _PROCESSES:
            self.begun.add(log.process.key)
        elif log.event == events.RL_WORKER_END.name and len(self.workers) < _PROCESSES:
            get = log.attributes.get
            self.workers[str(get(names.RL_WORKER_ID))] = WorkerEnd(
                log.time,
                str(get(names.RL_WORKER_END_REASON) or ""),
                bool(get(names.RL_WORKER_END_EXPECTED)),
                int_or_none(get(names.RL_CHILD_PID)),
            )
        elif log.event == events.RL_RUN_END.name and len(self.by_process) < _PROCESSES:
            get = log.attributes.get
            signal, status = get(names.RL_RUN_END_SIGNAL), int_or_none(get(names.PROCESS_EXIT_CODE))
            error = str(get(names.ERROR_TYPE) or "")
            self.by_process[log.process.key] = RunEnd(log.time, str(signal or ""), status, error)
