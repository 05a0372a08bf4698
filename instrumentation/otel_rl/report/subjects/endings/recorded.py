"""What the processes themselves said of their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


class RunEnd(NamedTuple):
    """An ``rl.run.end``; ``time`` in ns since the epoch."""

    time: int
    signal: str
    status: int | None
    #: Type of the exception that nothing caught.
    error: str


class WorkerEnd(NamedTuple):
    """An ``rl.worker.end``, as the cluster has told the driver; ``time`` in ns since the epoch."""

    time: int
    reason: str
    is_expected: bool
    #: Process id of its last process; those before it died, and the cluster started it again.
    pid: int | None


class ToldWait(NamedTuple):
    """What a watchdog told last of a process; times in ns since the epoch, ``end`` is 0 where it was not over."""

    begin: int
    end: int


def told_waits(collected: Collected) -> dict[str, ToldWait]:
    """Return the last hang or wait that each process was told to be in, by its key."""
    found: dict[str, ToldWait] = {}
    begins, ends = (events.RL_HANG.name, events.RL_WAIT.name), (events.RL_HANG_END.name, events.RL_WAIT_END.name)
    logs = [log for name in (*begins, *ends) for log in collected.tables.events(name)]
    for log in sorted(logs, key=lambda log: log.time):
        if log.event in begins:
            before = float_or_none(log.attributes.get(names.RL_HANG_DURATION)) or 0.0
            found[log.process.key] = ToldWait(log.time - round(before * 1e9), 0)
        elif log.process.key in found:
            found[log.process.key] = found[log.process.key]._replace(end=log.time)
    return found


def ended(collected: Collected) -> dict[str, RunEnd]:
    """Return the end of each process that has recorded one, by its key; another one was killed, or runs."""
    found = {}
    for log in collected.tables.events(events.RL_RUN_END.name):
        get = log.attributes.get
        signal, status = str(get(names.RL_RUN_END_SIGNAL) or ""), int_or_none(get(names.PROCESS_EXIT_CODE))
        found[log.process.key] = RunEnd(log.time, signal, status, str(get(names.ERROR_TYPE) or ""))
    return found


def workers(collected: Collected) -> dict[str, WorkerEnd]:
    """Return the ends of workers by their ids."""
    found = {}
    for log in collected.tables.events(events.RL_WORKER_END.name):
        get = log.attributes.get
        reason, pid = str(get(names.RL_WORKER_END_REASON) or ""), int_or_none(get(names.RL_CHILD_PID))
        found[str(get(names.RL_WORKER_ID))] = WorkerEnd(log.time, reason, bool(get(names.RL_WORKER_END_EXPECTED)), pid)
    return found
