"""Signs that this process goes on, for the watchdog: it compares them with what it saw when it last woke.

Who makes progress adds to a number, or has one already and lets the watchdog read it. Nothing here locks. Two threads
that add at once may be counted as one, which is a sign all the same.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

#: Most phases that are known to be open; what a program never ends makes room for others.
MAXIMUM_OPEN = 256

#: Phases that began or ended in this process, and calls of models and tools that ended.
PHASES, CALLS = range(2)
made = [0, 0]
#: id of each open phase -> its name, the one begun last at the end.
_open_phases: dict[int, str] = {}
_sources: list[Callable[[], object]] = []


class InEventLoop(Protocol):
    """A rollout or a model call that began in an event loop."""

    #: The id of the loop; 0: it began in none.
    event_loop: int

    @property
    def has_ended(self) -> bool:
        """True when the loop has no part in it any more."""


#: By kind, those that somebody still refers to; they may have ended.
ROLLOUTS, MODEL_CALLS = range(2)
_in_event_loops: tuple[WeakSet[InEventLoop], ...] = (WeakSet(), WeakSet())
#: Gets each event loop in which an operation begins, in the loop's thread; None: nobody watches event loops.
_loop_watcher: Callable[[Any], object] | None = None


def add_source(source: Callable[[], object]) -> None:
    """Let the watchdog's thread call ``source()`` about once a second; another answer is progress. It must not lock."""
    if source not in _sources:
        _sources.append(source)


def remove_source(source: Callable[[], object]) -> None:
    """Undo :func:`add_source`."""
    if source in _sources:
        _sources.remove(source)


def of_sources() -> tuple[object, ...]:
    """Return the answers of the sources; raises what they raise."""
    return tuple(source() for source in list(_sources))


def phase_began(identity: int, name: str) -> None:
    """Note that a phase has begun; ``identity`` is given to :func:`phase_ended`."""
    made[PHASES] += 1
    if len(_open_phases) >= MAXIMUM_OPEN:
        _open_phases.pop(next(iter(_open_phases)), None)
    _open_phases[identity] = name


def phase_ended(identity: int) -> None:
    """Note that a phase has ended, or was suspended."""
    made[PHASES] += 1
    _open_phases.pop(identity, None)


def call_ended() -> None:
    """Note that a call of a model or of a tool has ended."""
    made[CALLS] += 1


def watch_event_loops(watcher: Callable[[Any], object] | None) -> None:
    """Let :func:`event_loop` call ``watcher(loop)``. It is on the way of each model call, so it must be quick."""
    global _loop_watcher
    _loop_watcher = watcher


def event_loop() -> int:
    """Return the id of the event loop that runs in this thread, 0 where none does, for an operation that begins."""
    if _loop_watcher is None:
        return 0
    asyncio = sys.modules.get("asyncio.events")
    # Another thread may be importing it.
    running = getattr(asyncio, "_get_running_loop", None)
    loop = running() if running is not None else None
    if loop is None:
        return 0
    _loop_watcher(loop)
    return id(loop)


def began_in_event_loop(kind: int, operation: InEventLoop) -> None:
    """Count a rollout or model call that begins as waiting in this thread's event loop, if one runs."""
    loop = event_loop()
    if loop:
        operation.event_loop = loop
        _in_event_loops[kind].add(operation)


def open_in_event_loop(kind: int, loop: int) -> int:
    """How many began in the event loop with this id and have not ended; for the watchdog's thread."""
    # One copy of the set of references: the set itself may change at any moment.
    operations = (reference() for reference in list(_in_event_loops[kind].data))  # type: ignore[attr-defined]
    return sum(
        operation is not None and operation.event_loop == loop and not operation.has_ended for operation in operations
    )


def open_phases() -> tuple[str, ...]:
    """Names of the phases that are open in any thread, the one begun last at the end."""
    return tuple(_open_phases.values())


def _forget() -> None:
    """In a forked child they are the parent's."""
    _open_phases.clear()
    for operations in _in_event_loops:
        operations.clear()


lifecycle.after_fork_in_child(_forget)
