"""Wrappers of ``slime``, and of what its driver calls in ``ray``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_rl.instrumentors.slime import driver, rollouts, workers
from otel_rl.training import trainer_loop
from otel_rl.training.timed_loop import log_ended, part_ended

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_placement_group(module: ModuleType, patches: Patches) -> None:
    """Patch what makes the manager, and how the driver calls it and waits; the driver alone imports this module."""
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, "create_rollout_manager", after=driver.manager_made, required=True)
    begin, end = driver.call_begins, driver.call_ended
    patches.observe(module.ray.actor, "ActorHandle._actor_method_call", begin=begin, end=end, required=True)
    patches.observe(module.ray, "get", begin=driver.wait_begins, end=driver.wait_ended, required=True)


def patch_actor_group(module: ModuleType, patches: Patches) -> None:
    """Patch the handle of the ranks that train."""
    group = "RayTrainGroup"
    before, after = driver.train_begins, driver.train_submitted
    patches.observe(module, f"{group}.async_train", before=before, after=after, required=True)
    for method in (driver.SAVE, driver.SYNC):
        begin = partial(driver.part_begins, method)
        patches.observe(module, f"{group}.{method}", begin=begin, end=part_ended, required=True)


def patch_timer(module: ModuleType, patches: Patches) -> None:
    """Patch the timer of the ranks that train."""
    patches.observe(module, "Timer.start", after=workers.timer_started, required=True)
    patches.observe(module, "Timer.end", before=workers.timer_ends, required=True)


def patch_log(module: ModuleType, patches: Patches) -> None:
    """Patch the function by which all processes log, with a tracker or without."""
    patches.observe(module, "log", begin=workers.log_begins, end=log_ended, required=True)


def patch_sample_hooks(module: ModuleType, patches: Patches) -> None:
    """Patch where the manager says which step it makes samples for."""
    patches.observe(module, "set_current_rollout_id", before=rollouts.step_told, required=True)


def patch_rollouts(module: ModuleType, patches: Patches) -> None:
    """Patch the call that is one rollout, from its prompt to its reward, and the one of a group."""
    begin, end = rollouts.rollout_begins, rollouts.rollout_ended
    patches.observe(module, "generate_and_rm", begin=begin, end=end, required=True)
    patches.observe(module, "generate_and_rm_group", after=rollouts.group_ended, required=True)


def patch_rewards(module: ModuleType, patches: Patches) -> None:
    """Patch the function that asks for the reward of one sample."""
    patches.observe(module, "async_rm", begin=rollouts.reward_begins, end=part_ended, required=True)
