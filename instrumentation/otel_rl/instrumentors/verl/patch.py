"""Wrappers of ``verl``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_rl.instrumentors.verl import advantages, queue, rollouts, trainer
from otel_rl.training import logged_steps, trainer_loop
from otel_rl.training.timed_loop import log_begins, log_ended, part_ended

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_timer(module: ModuleType, patches: Patches) -> None:
    """Patch the generator that all timers call, those of other profilers too."""
    patches.observe(module, "_timer", begin=trainer.timer_begins, end=part_ended, required=True)


def patch_tracking(module: ModuleType, patches: Patches) -> None:
    """Patch the class by which all trainers log; of one with a loop of its own that is all there is."""
    logged_steps.follow()
    patches.observe(module, "Tracking.__init__", before=trainer.configured)
    begin = partial(log_begins, trainer.scope)
    patches.observe(module, "Tracking.log", begin=begin, end=log_ended, required=True)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainers of version 1, which differ in how they wait for samples."""
    _observe_fit(module, "PPOTrainer", patches)
    patches.observe(module, "PPOTrainer._submit_batch_to_rollout", before=queue.asked)


def patch_ray_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer before them."""
    _observe_fit(module, "RayPPOTrainer", patches)


def _observe_fit(module: ModuleType, kind: str, patches: Patches) -> None:
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, f"{kind}.fit", begin=trainer.fit_begins, end=trainer.fit_ended, required=True)


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
