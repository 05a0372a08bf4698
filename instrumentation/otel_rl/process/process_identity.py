"""Identity of this process in the run: run id, attempt, rank, role, system.

The distro fills it from the environment, instrumentors complete it (``torch.distributed`` knows the rank,
a trainer knows its name), and listeners such as the resource follow.

Before the first export the identity may still change. From then on it is frozen: see :func:`freeze`.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class ProcessIdentity:
    """Identity of this process; ``None`` means not known (yet)."""

    id: str | None = None
    #: Scheduler restarts, elastic restarts and resume number, in this order.
    attempt: str = "0.0.0"
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    node_rank: int | None = None
    role: str | None = None
    system: str | None = None
    system_version: str | None = None
    algorithm: str | None = None
    launcher: str | None = None
    job_id: str | None = None
    #: The launcher has numbered all processes of the launch, and this is one of them.
    numbered: bool = False
    #: Run id and attempt are those of the whole launch.
    agreed: bool = True
    #: This process speaks for the run: it emits the run span and prints the summary line.
    leads: bool = True
    #: Ids of shared step traces are derived from it; ``None`` in a worker that shares no step with anyone.
    steps_key: str | None = None
    #: Class and id of the Ray actor that this process runs.
    worker_name: str | None = None
    worker_id: str | None = None
    #: A Ray worker in which a trainer, or the program, marks steps: its driver, which leads, has none.
    has_steps: bool = False

    @property
    def is_worker_of_ray(self) -> bool:
        """True of a worker without a rank, or with rank 0: the others of a group say the same."""
        return self.launcher == _RAY and self.rank in (0, None)

    @property
    def leads_training(self) -> bool:
        """True in the process that speaks for the steps: of its values, settings, health and trackers."""
        return self.leads or (self.has_steps and self.rank in (0, None))

    @property
    def emits_step_roots(self) -> bool:
        """True in rank 0 of those that share step traces, and in a driver without a rank."""
        return self.steps_key is not None and self.rank in (0, None)


#: What names files, traces and series.
_NAMING = frozenset({"id", "attempt", "rank", "local_rank", "node_rank", "world_size"})
#: What a launcher that numbers its processes knows better than any process group.
_NUMBERS = frozenset({"rank", "local_rank", "node_rank", "world_size"})
_RAY, _DRIVER = "ray", "driver"
_FIELDS = frozenset(field.name for field in fields(ProcessIdentity))

#: Without our distro there is no run id: the steps of this process have their own traces.
_current = ProcessIdentity(steps_key=f"process/{os.urandom(8).hex()}")
_listeners: list[Callable[[ProcessIdentity], None]] = []
_lock = threading.RLock()
_frozen = False
_meeting = False
_has_worked = False


def current() -> ProcessIdentity:
    """Return the identity as known now."""
    return _current


def begin(identity: ProcessIdentity) -> None:
    """Start with ``identity``, which the environment tells."""
    global _current
    _current = identity
    _notify(identity)


def update(**changes: Any) -> ProcessIdentity:
    """Complete the identity; unknown (``None``) values never erase known ones.

    A frozen identity can be completed, but a known run id, attempt or rank stays. So does a rank from the launcher.

    Raises:
        TypeError: for a name that is not a field of :class:`ProcessIdentity`.
    """
    global _current
    unknown = changes.keys() - _FIELDS
    if unknown:
        raise TypeError(f"unknown run field: {', '.join(sorted(unknown))}")
    with _lock:
        updated = replace(_current, **{name: value for name, value in changes.items() if _changes(name, value)})
        if updated.leads and updated.rank not in (0, None) and not _frozen:
            updated = replace(updated, leads=False)
        if updated == _current:
            return _current
        _current = updated
    _notify(updated)
    return updated


def _notify(identity: ProcessIdentity) -> None:
    for listener in _listeners:
        with guard("process_identity.listener"):
            listener(identity)


def _changes(name: str, value: Any) -> bool:
    if value is None:
        return False
    fixed = (_NAMING if _frozen else frozenset()) | (_NUMBERS if _current.numbered else frozenset())
    return name not in fixed or getattr(_current, name) is None


def add_listener(listener: Callable[[ProcessIdentity], None]) -> None:
    """Call ``listener(run)`` after every change, and when the identity has settled; once if it is added twice."""
    if listener not in _listeners:
        _listeners.append(listener)


def begin_steps() -> None:
    """Note that a trainer, or the program, marks the steps of this process."""
    who = _current
    if who.has_steps or not who.is_worker_of_ray:
        return
    update(has_steps=True, steps_key=who.steps_key or f"{who.id}/{who.attempt}/{os.urandom(8).hex()}")


def share_no_steps() -> None:
    """Keep the steps of this process in traces of its own, until :func:`update` sets another ``steps_key``."""
    global _current
    with _lock:
        _current = replace(_current, steps_key=None)


def begin_meeting() -> None:
    """Begin the rendezvous on run id and attempt: the identity is not settled until :func:`end_meeting`."""
    global _meeting
    _meeting = True


def end_meeting() -> None:
    """End the rendezvous: the ranks have agreed, or will not."""
    global _meeting
    _meeting = False
    before = _current
    if update(agreed=True) is before:
        # Nothing has changed, but from here on nothing will.
        _notify(before)


def settled() -> bool:
    """Return whether run id and rank can no longer change, as far as is known.

    Before a process group stands, that is: the launcher has numbered the ranks and they have one run id, or the rank is
    known otherwise, or nothing distributed has been imported. A Ray worker may be gone before it has a rank, and has
    the run id of its driver: its rank is completed later. A driver has none. A process that works before there is a
    group is no rank: those meet before their first step or call.
    """
    if _frozen or _meeting:
        return _frozen
    if _current.launcher == _RAY or (_current.role == _DRIVER and not will_meet()):
        return True
    if _current.numbered:
        return _current.agreed
    return _current.rank is not None or _has_worked or "torch.distributed" not in sys.modules


def note_work() -> None:
    """Record that this process has begun a step, or has made a call: it would have met others before that."""
    global _has_worked
    if not _has_worked:
        _has_worked = True
        if settled():
            _notify(_current)


def will_meet() -> bool:
    """Return whether a launcher's rank must still learn the run id: a rendezvous is sure to come."""
    return _current.numbered and not _current.agreed


def freeze() -> None:
    """Freeze the identity at the first export: afterwards neither series nor the store's directory are renamed."""
    global _frozen
    if not _frozen:
        _frozen = True
        _notify(_current)


def frozen() -> bool:
    """Return whether the first export has begun."""
    return _frozen


def after_fork_in_child() -> None:
    """Stop the child from leading the run or sharing its steps; it may join a process group of its own."""
    global _current, _lock, _frozen, _meeting, _has_worked
    # The parent may have held the lock at the fork.
    _lock = threading.RLock()
    _frozen = _meeting = _has_worked = False
    _current = replace(_current, numbered=False, agreed=True, leads=False, steps_key=None)
