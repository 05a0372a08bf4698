"""Hooks shared by verl and SkyRL: trainers whose timer names the parts of a step, and that log through ``Tracking``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_rl.training import logged_steps, trainer_loop
from otel_rl.training.timed_loop import log_begins, log_ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.telemetry import Scope
    from otel_rl.training.timed_loop import TimedLoop


def patch_tracking(module: ModuleType, patches: Patches, scope: Scope, configured: Callable[..., None]) -> None:
    """Patch the class that all trainers log through. A trainer with a loop of its own has only these steps."""
    logged_steps.follow()
    patches.observe(module, "Tracking.__init__", before=configured)
    patches.observe(module, "Tracking.log", begin=partial(log_begins, scope), end=log_ended, required=True)


def patch_loop(module: ModuleType, patches: Patches, method: str, begin: Callable[..., TimedLoop | None]) -> None:
    """Patch the method that is the whole training; ``begin`` enters its loop."""
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, method, begin=begin, end=trainer_loop.TrainerLoop.train_ended, required=True)
