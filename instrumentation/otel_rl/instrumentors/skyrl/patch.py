"""Wrappers of ``skyrl``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_rl.instrumentors.skyrl import engines, rollouts, trainer
from otel_rl.training import logged_steps, trainer_loop
from otel_rl.training.timed_loop import log_begins, log_ended

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_tracking(module: ModuleType, patches: Patches) -> None:
    """Patch the class by which all trainers log; of one with a loop of its own that is all there is."""
    logged_steps.follow()
    patches.observe(module, "Tracking.__init__", before=trainer.configured)
    begin = partial(log_begins, trainer.scope)
    patches.observe(module, "Tracking.log", begin=begin, end=log_ended, required=True)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the synchronous trainer."""
    _observe_train(module, "RayPPOTrainer", patches)


def patch_async_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer whose rollouts run beside it."""
    _observe_train(module, "FullyAsyncRayPPOTrainer", patches)


def patch_sft_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer of supervised fine-tuning."""
    _observe_train(module, "SFTTrainer", patches)


def _observe_train(module: ModuleType, kind: str, patches: Patches) -> None:
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, f"{kind}.train", begin=trainer.train_begins, end=trainer.train_ended, required=True)


def patch_generator(module: ModuleType, patches: Patches) -> None:
    """Patch the call that is one rollout, from its prompt to its reward."""
    _observe_rollouts(module, "SkyRLGymGenerator", patches)


def patch_vlm_generator(module: ModuleType, patches: Patches) -> None:
    """Patch the same of models that see images."""
    _observe_rollouts(module, "SkyRLVLMGymGenerator", patches)


def _observe_rollouts(module: ModuleType, kind: str, patches: Patches) -> None:
    begin, end = rollouts.rollout_begins, rollouts.rollout_ended
    patches.observe(module, f"{kind}.agent_loop", begin=begin, end=end, required=True)


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch the client of the engines where it knows the version of their weights."""
    client = "RemoteInferenceClient"
    begin, end = engines.generate_begins, engines.generate_ended
    patches.observe(module, f"{client}.generate", begin=begin, end=end, required=True)
    patches.observe(module, f"{client}.increment_weight_version", after=engines.synced, required=True)
