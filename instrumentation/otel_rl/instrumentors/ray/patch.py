"""Wrappers of ``ray``."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from otel_rl.instrumentors.ray import calls, ends, execution
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlLauncherValues
from otel_rl.telemetry import lifecycle

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
    if process_identity.current().launcher == RlLauncherValues.RAY:
        # Now, while the worker waits for its first call.
        lifecycle.prepare_delivery()
    patches.on_restore(execution.switch.off)


def patch_worker(module: ModuleType, patches: Patches) -> None:
    """Know the driver, and look at the actors before it leaves the cluster.

    Ray registers its ``shutdown`` with ``atexit`` when the module is imported: what is registered after that, as here,
    runs before it.
    """
    patches.observe(module, "init", after=ends.joined, required=True)
    patches.observe(module, "shutdown", before=ends.leaving, required=True)
    atexit.register(ends.at_exit)
    patches.on_restore(lambda: atexit.unregister(ends.at_exit))
