"""Which post-training system and algorithm this process runs, and in which role: the first specific system wins.

A general trainer wins over a layer that loops of one's own are written with, and that trainers use too. Systems that
build on a general trainer register themselves. The hook of the general trainer names the class that is being
configured, and the registered system that the class comes from answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.process import process_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The algorithm of a class of this system; None for a class that is none of its trainers or configurations.
    AlgorithmOf = Callable[[type], str | None]

#: Top-level package -> system, its version, what names the algorithm of a class.
_registered: dict[str, tuple[str, str | None, AlgorithmOf]] = {}
#: What has been named: a layer, a general trainer, or a system that registered itself.
_LAYER, _TRAINER, _SPECIFIC = 1, 2, 3
_named = 0


def register(package: str, system: str, version: str | None, algorithm_of: AlgorithmOf) -> None:
    """Classes that come from ``package`` belong to ``system``."""
    _registered[package] = (system, version, algorithm_of)


def unregister(package: str) -> None:
    """Undo :func:`register`."""
    _registered.pop(package, None)


def identify(kind: type, default: str) -> tuple[str, str | None, str | None]:
    """System, version and algorithm of a trainer or configuration class; a program's subclass counts as its base."""
    for base in kind.__mro__:
        registered = _registered.get(base.__module__.partition(".")[0])
        if registered is None:
            continue
        system, version, algorithm_of = registered
        algorithm = algorithm_of(base)
        if algorithm is not None:
            return system, version, algorithm
    return default, None, None


def configured(kind: type, default: str, version: str | None, role: str, *, is_layer: bool = False) -> None:
    """Complete the identity of this process: a trainer or its configuration is being made.

    ``default`` and ``version`` are those of the general system whose hook calls, or of a layer below such systems. A
    system named before stays, unless it was a more general one; a role named before stays too.
    """
    global _named
    system, own_version, algorithm = identify(kind, default)
    specific = algorithm is not None
    rank = _SPECIFIC if specific else _LAYER if is_layer else _TRAINER
    known = process_identity.current()
    # One that is known from elsewhere is as good as a trainer's.
    if known.system is None or rank > (_named or _TRAINER):
        _named = rank
        process_identity.update(
            system=system,
            system_version=own_version if specific else version,
            algorithm=settings.current().algorithm or algorithm,
            role=known.role or role,
        )
    elif known.role is None:
        process_identity.update(role=role)
