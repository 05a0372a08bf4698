"""Form of the health rules; the rules themselves are in ``rule_table``, which is generated from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Input:
    """A curve that rules read: ``keys`` of trainers, the most trusted first; ``metric`` is the registry's name.

    Beside one of the keys ``not_beside``, in one log call, they mean something else.
    """

    brief: str
    unit: str
    keys: tuple[str, ...]
    metric: str = ""
    not_beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that a user may override."""

    value: float
    unit: str
    brief: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; ``needs`` are alternatives, each of them inputs that are needed together."""

    title: str
    means: str
    needs: tuple[tuple[str, ...], ...]
    source: str
    limits: Mapping[str, Limit]
    next_steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules as they are in force: the defaults with what the user's file says."""

    #: Input -> keys of trainers, the most trusted first.
    keys: Mapping[str, tuple[str, ...]]
    #: Code -> limit -> value, of the rules that are switched on.
    limits: Mapping[str, Mapping[str, float]]
