"""Who is called at one moment of a step; the moments are in :mod:`otel_rl.training.steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Callback = TypeVar("Callback", bound="Callable[..., None]")


class StepSubscribers(Generic[Callback]):
    """Callbacks of one moment, in the order in which they were added."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []

    def add(self, callback: Callback) -> None:
        """Call ``callback`` from now on; adding it twice is adding it once."""
        if callback not in self.callbacks:
            self.callbacks.append(callback)

    def remove(self, callback: Callback) -> bool:
        """Call ``callback`` no more; return False where another thread has removed it already."""
        try:
            self.callbacks.remove(callback)
        except ValueError:
            return False
        return True
