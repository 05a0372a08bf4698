"""Identity of this process in the run: run id, attempt, rank, role, system.

The distro fills it from the environment, instrumentors complete it (``torch.distributed`` knows the rank,
a trainer knows its name), and listeners such as the resource follow.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from otel_rl.internal_errors import guard

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Run:
    """Identity of this process; ``None`` means not known (yet)."""

    id: str | None = None
    attempt: int = 0
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    node_rank: int | None = None
    role: str | None = None
    system: str | None = None
    algorithm: str | None = None
    launcher: str | None = None
    job_id: str | None = None
    #: This process speaks for the run: it emits the run span and prints the summary line.
    leads: bool = True


_current = Run()
_listeners: list[Callable[[Run], None]] = []
_FIELDS = frozenset(field.name for field in fields(Run))


def current() -> Run:
    """The identity as known now."""
    return _current


def update(**changes: Any) -> Run:
    """Complete the identity; unknown (``None``) values never erase known ones.

    Raises:
        TypeError: for a name that is not a field of :class:`Run`.
    """
    global _current
    unknown = changes.keys() - _FIELDS
    if unknown:
        raise TypeError(f"unknown run field: {', '.join(sorted(unknown))}")
    known = {name: value for name, value in changes.items() if value is not None}
    updated = replace(_current, **known)
    if updated == _current:
        return _current
    _current = updated
    for listener in _listeners:
        with guard("process_identity.listener"):
            listener(updated)
    return updated


def add_listener(listener: Callable[[Run], None]) -> None:
    """Call ``listener(run)`` after every change."""
    _listeners.append(listener)


def settled() -> bool:
    """True when the rank cannot become known any more: it is known, or nothing distributed has been imported."""
    return _current.rank is not None or "torch.distributed" not in sys.modules
