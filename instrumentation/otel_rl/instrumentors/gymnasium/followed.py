"""The classes of environments whose ``step`` is ours, for as long as the program refers to them."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops
from otel_rl.training import environments

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.core.guard import guard
    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]

#: Most classes that are followed at once: a program may make one per environment.
MOST = 256
#: Reason for which others are not, among the drops.
LIMIT = "environment_class_limit"


class Failed:
    """Handles an error of ours in a step; pickled as what ignores it, without us."""

    __slots__ = ("_guard",)

    def __init__(self, site: guard) -> None:
        self._guard = site

    def __call__(self, error: Exception) -> None:
        """Count it."""
        self._guard.handle(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, ({}, "get")


class FollowedClasses:
    """Puts ``counted(owner, step)`` in place of the step of classes, and the originals back."""

    def __init__(self, counted: Callable[[type, Function], Function]) -> None:
        self._counted = counted
        self._classes: WeakSet[type] = WeakSet()
        self._refused: WeakSet[type] = WeakSet()
        #: What we put in place, where an original of Python stood.
        self._steps: WeakSet[Function] = WeakSet()

    def follow(self, environment: Any, base: type, patches: Patches) -> type | None:
        """Count the steps of the class that gives ``environment`` its step, and return that class.

        None if that is ``base``, which only hands on, or if nothing counts here, or if there are too many classes.
        """
        owner = next((kind for kind in type(environment).__mro__ if "step" in vars(kind)), base)
        if owner is base or not environments.is_followed():
            return None
        if owner in self._classes:
            return owner
        if len(self._classes) >= MOST:
            if owner not in self._refused:
                self._refused.add(owner)
                drops.count(Signal.METRICS, LIMIT)
            return None
        self._classes.add(owner)
        step = vars(owner)["step"]
        if type(step) is not FunctionType:
            # Of Cython, or somebody's wrapper: there are few.
            patches.replace(owner, "step", partial(self._counted, owner))
        elif not self._has_ours(step):
            ours = self._counted(owner, step)
            self._steps.add(ours)
            type.__setattr__(owner, "step", ours)
        return owner

    def _has_ours(self, step: Any) -> bool:
        """Return whether ours still runs below a wrapper that somebody else has put over it."""
        for _ in range(32):
            if not isinstance(step, FunctionType):
                return False
            if step in self._steps:
                return True
            step = getattr(step, "__wrapped__", None)
        return False

    def restore(self) -> None:
        """Put the originals back where ours are still in place."""
        for owner in list(self._classes):
            step = vars(owner).get("step")
            if isinstance(step, FunctionType) and step in self._steps:
                type.__setattr__(owner, "step", getattr(step, "__wrapped__", step))
        self._classes.clear()
        self._refused.clear()
