"""Instrumentation of Ray: what its actors and tasks run belongs to the step and rollout of their caller.

A call of an actor's method takes the context of its caller along, in the keyword argument that Ray's own tracing uses:
every method of an actor takes it, with and without us in the worker. In the worker the call is a span, and what it has
recorded is delivered before its result is stored, since Ray ends its workers without their atexit.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class RayInstrumentor(Instrumentor):
    """Patches calls of actors, what workers execute, and the end of the driver."""

    requirements: ClassVar = ("ray >= 2.40, < 3",)
    general_purpose = True
    modules: ClassVar = {
        "ray.actor": "patch:patch_actor",
        "ray._private.function_manager": "patch:patch_function_manager",
        "ray._private.worker": "patch:patch_worker",
    }
