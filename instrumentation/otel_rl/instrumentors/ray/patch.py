"""Wrappers of ``ray``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.instrumentors.ray import calls, ends, execution

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_actor(module: ModuleType, patches: Patches) -> None:
    """Patch what all calls of actors' methods pass, below what Ray's own tracing wraps."""
    patches.replace(module, "ActorHandle._actor_method_call", calls.carrying, required=True)


def patch_function_manager(module: ModuleType, patches: Patches) -> None:
    """Patch where a worker asks for the function of each task and method that it executes, once for each."""
    patches.replace(module, "FunctionActorManager.get_execution_info", execution.following, required=True)
    execution.switch.on = True
    patches.on_restore(execution.switch.off)


def patch_worker(module: ModuleType, patches: Patches) -> None:
    """Look at the actors before the driver leaves the cluster; ``atexit`` of Ray calls it too."""
    patches.observe(module, "shutdown", before=ends.leaving)
