"""Wrappers of ``verl``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.instrumentors import timed_trainers
from otel_rl.instrumentors.verl import advantages, queue, rollouts, trainer
from otel_rl.training.timed_loop import part_ended

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_timer(module: ModuleType, patches: Patches) -> None:
    """Patch the generator that all timers call, those of other profilers too."""
    patches.observe(module, "_timer", begin=trainer.timer_begins, end=part_ended, required=True)


def patch_tracking(module: ModuleType, patches: Patches) -> None:
    """Patch the class that all trainers log through."""
    timed_trainers.patch_tracking(module, patches, trainer.scope, trainer.configured)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainers of version 1, which differ in how they wait for samples."""
    timed_trainers.patch_loop(module, patches, "PPOTrainer.fit", trainer.fit_begins)
    patches.observe(module, "PPOTrainer._submit_batch_to_rollout", before=queue.asked)


def patch_ray_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer before them."""
    timed_trainers.patch_loop(module, patches, "RayPPOTrainer.fit", trainer.fit_begins)


def patch_advantages(module: ModuleType, patches: Patches) -> None:
    """Patch where the trainer has the advantages of a batch, by the keys of its samples."""
    patches.observe(module, "compute_advantage_for_multi_trajectories", after=advantages.computed, required=True)


def patch_queue(module: ModuleType, patches: Patches) -> None:
    """Patch where the trainer takes a batch out of the queue."""
    patches.observe(module, "ReplayBuffer._materialize_batch", before=queue.taken)


def patch_agent_loop(module: ModuleType, patches: Patches) -> None:
    """Patch the call that is one rollout, from its prompt to its score."""
    run, score = rollouts.run_begins, rollouts.score_begins
    patches.observe(module, "AgentLoopWorker._run_agent_loop", begin=run, end=rollouts.ended, required=True)
    patches.observe(
        module, "AgentLoopWorker._compute_score", begin=score, end=rollouts.ended, after=rollouts.scored, required=True
    )


def patch_tools(module: ModuleType, patches: Patches) -> None:
    """Patch where all tools of an agent loop are called."""
    begin = rollouts.tool_begins
    patches.observe(module, "ToolAgentLoop._call_tool", begin=begin, end=rollouts.ended, required=True)


def patch_model_calls(module: ModuleType, patches: Patches) -> None:
    """Patch the client by which agent loops ask the servers of the policy."""
    begin, end = rollouts.generate_begins, rollouts.generate_ended
    patches.observe(module, "LLMServerClient.generate", begin=begin, end=end, required=True)
