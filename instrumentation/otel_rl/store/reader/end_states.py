"""How a process ended, or that it runs: the state, and the sentence that follows the name of the process."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from otel_rl.process import lifetime

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.process.exit_records import Exit
    from otel_rl.store.reader.processes import Process

_SIGTERM, _SIGINT, _SIGKILL = "SIGTERM", "SIGINT", "SIGKILL"


class EndState(Enum):
    """How a process ended."""

    RUNNING = "running"
    #: With status 0, or without any sign of failure.
    IN_ORDER = "in order"
    #: By Ctrl-C, or by SIGTERM after which it could deliver.
    STOPPED = "stopped"
    #: By an exception, or with another status than 0.
    FAILED = "failed"
    #: By a signal, as its parent saw.
    KILLED = "killed"
    #: Without an end, and it does not run.
    GONE = "gone"
    #: Without an end, and whether it runs cannot be seen from here.
    NOT_KNOWN = "not known"
    #: It is none of those that record their begin and end.
    NOT_RECORDED = "not recorded"

    @property
    def is_bad(self) -> bool:
        """True where the process failed, was killed, or is gone."""
        return self in (EndState.FAILED, EndState.KILLED, EndState.GONE)

    @property
    def is_well(self) -> bool:
        """True where the process ended in order, or runs."""
        return self in (EndState.IN_ORDER, EndState.RUNNING)

    @property
    def is_open(self) -> bool:
        """True where the process has not ended yet, as far as is known."""
        return self in (EndState.RUNNING, EndState.NOT_KNOWN)


#: What is added to the words for the end of a child that its parent, such as the process of a pool, has survived.
SURVIVED = "; that process went on"
#: The same where it runs, of a ``multiprocessing.Pool``, and has begun no step since.
MAY_WAIT = "; a call of it may never be answered"
#: The state of several processes is the first of these that one of them has.
GRAVEST_FIRST = (
    EndState.FAILED,
    EndState.KILLED,
    EndState.GONE,
    EndState.NOT_KNOWN,
    EndState.STOPPED,
    EndState.RUNNING,
    EndState.IN_ORDER,
    EndState.NOT_RECORDED,
)


def recorded(
    process: Process, signal: str, status: int | None, seen: Exit | None, step: str = ""
) -> tuple[EndState, str]:
    """Return how a process ended that has recorded it.

    Args:
        process: The process; its manifest and its exit status count.
        signal: The signal that ended it, as it has said; ``""`` without one.
        status: The status that it has said, ``None`` where it has not.
        seen: How its parent saw it end.
        step: Where it was, for the sentence: ``, during step 4``.
    """
    status = process.exit_status if process.exit_status is not None else status
    if seen is not None and seen.status > 0:
        status = seen.status
    reason = (process.manifest or {}).get("exit_reason")
    if seen is not None and _is_asked_for(seen, process):
        return EndState.IN_ORDER, f"was {seen.words}{step}"
    if signal:
        return EndState.STOPPED, f"was stopped by {signal}{step}"
    if seen is not None and seen.status < 0:
        is_asked_for = seen.signal in (_SIGTERM, _SIGINT)
        return EndState.STOPPED if is_asked_for else EndState.KILLED, f"was {seen.words}{step}"
    if seen is not None and seen.is_of_pool and seen.status > 0 and not reason:
        return EndState.IN_ORDER, f"ended its work, then {seen.words}"
    if reason or status:
        return EndState.FAILED, f"{f'exited with status {status}' if status else f'failed: {reason}'}{step}"
    return EndState.IN_ORDER, _in_order(process, status)


def _in_order(process: Process, status: int | None) -> str:
    if status == 0:
        return "ended in order (status 0)"
    if process.was_ending:
        if process.lifetime is not None and lifetime.is_alive(process.lifetime):
            return "ended its work, and shuts down"
        return "ended its work, and left no exit status: a signal or os._exit ended it while it shut down"
    return "ended in order; its exit status is not known"


def unrecorded(
    seen: Exit | None, is_alive: bool | None, step: str = "", *, is_of_ray: bool = False
) -> tuple[EndState, str]:
    """Return how a process ended that has recorded no end, or that it runs.

    Args:
        seen: How its parent saw it end.
        is_alive: Whether it runs; ``None`` where that cannot be seen from here.
        step: Where it was, for the sentence: ``, during step 4``.
        is_of_ray: A worker of Ray, which ends it without letting it record that, whatever the reason.
    """
    if seen is not None:
        return _as_seen(seen, step)
    if is_alive:
        return EndState.RUNNING, f"is running{step}"
    if is_of_ray:
        return EndState.NOT_RECORDED, "ended, cause not recorded"
    if is_alive is None:
        return EndState.NOT_KNOWN, "has no end recorded"
    return EndState.GONE, f"ended without a record of its end: killed, or os._exit{step}"


def imported(process: Process) -> tuple[EndState, str]:
    """Return what is known of the end of a run that was imported."""
    return EndState.NOT_RECORDED, f"was imported from {process.imported_from}: its end is not recorded"


def _as_seen(seen: Exit, step: str) -> tuple[EndState, str]:
    if seen.status == 0:
        return EndState.IN_ORDER, f"{seen.words}, left no record of its end{step}"
    if seen.status > 0:
        return EndState.FAILED, f"{seen.words}, without a record of its end, as os._exit does{step}"
    return EndState.KILLED, f"was {seen.words}{step}{_why_killed(seen)}"


def survived(process: Process, seen: Exit | None, state: EndState, going_on: Collection[tuple[str, int]]) -> bool:
    """Return whether a bad end is one that the parent asked for, or that of a pool's worker which the pool survived.

    Args:
        process: The process that ended.
        seen: How its parent saw it end.
        state: How it ended.
        going_on: Host and pid of the processes that ended in order, or run.
    """
    if seen is None or not state.is_bad:
        return False
    return _is_asked_for(seen, process) or (seen.is_of_pool and (seen.host, seen.parent) in going_on)


def _is_asked_for(seen: Exit, process: Process) -> bool:
    """Return whether the program ended it; a rank is ended so when another one has failed."""
    return seen.is_asked_for and process.rank is None


def _why_killed(seen: Exit) -> str:
    """Return what is known of the reason for a signal."""
    if seen.signal == _SIGKILL and seen.oom_kills:
        return "; the kernel ends processes so where the memory of their control group is exhausted"
    return ""


def moment(seen: Exit | None, last: int) -> int:
    """Return when a process without a recorded end has ended, in ns since the epoch; ``last`` is its last sign.

    SIGTERM comes from somebody who ends a job; others come out of nothing, and the last sign says when.
    """
    return seen.at_unix_nano if seen is not None and seen.signal == _SIGTERM else last
