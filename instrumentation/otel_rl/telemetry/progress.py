"""Signs that this process goes on, for the watchdog: it compares them with what it saw when it last woke.

Who makes progress adds to a number, or has one already and lets the watchdog read it. Nothing here locks. Two threads
that add at once may be counted as one, which is a sign all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def add_source(source: Callable[[], object]) -> None:
    """Let the watchdog's thread call ``source()`` about once a second; another answer is progress. It must not lock."""
    if source not in _sources:
        _sources.append(source)


def remove_source(source: Callable[[], object]) -> None:
    """Undo :func:`add_source`."""
    if source in _sources:
        _sources.remove(source)


def of_sources() -> tuple[object, ...]:
    """What the sources answer now; may raise what they raise."""
    return tuple(source() for source in list(_sources))


def phase_began(identity: int, name: str) -> None:
    """A phase has begun; ``identity`` is given to :func:`phase_ended`."""
    made[PHASES] += 1
    if len(_open_phases) >= MAXIMUM_OPEN:
        _open_phases.pop(next(iter(_open_phases)), None)
    _open_phases[identity] = name


def phase_ended(identity: int) -> None:
    """A phase has ended, or was suspended."""
    made[PHASES] += 1
    _open_phases.pop(identity, None)


def call_ended() -> None:
    """A call of a model or of a tool has ended."""
    made[CALLS] += 1


def open_phases() -> tuple[str, ...]:
    """Names of the phases that are open in any thread, the one begun last at the end."""
    return tuple(_open_phases.values())


# In a forked child they are the parent's.
lifecycle.after_fork_in_child(_open_phases.clear)
