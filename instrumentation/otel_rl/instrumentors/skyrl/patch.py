"""Wrappers of ``skyrl``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.instrumentors import timed_trainers
from otel_rl.instrumentors.skyrl import engines, rollouts, trainer

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_tracking(module: ModuleType, patches: Patches) -> None:
    """Patch the class that all trainers log through."""
    timed_trainers.patch_tracking(module, patches, trainer.scope, trainer.configured)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the synchronous trainer."""
    timed_trainers.patch_loop(module, patches, "RayPPOTrainer.train", trainer.train_begins)


def patch_async_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer whose rollouts run beside it."""
    timed_trainers.patch_loop(module, patches, "FullyAsyncRayPPOTrainer.train", trainer.train_begins)


def patch_sft_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer of supervised fine-tuning."""
    timed_trainers.patch_loop(module, patches, "SFTTrainer.train", trainer.train_begins)


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
