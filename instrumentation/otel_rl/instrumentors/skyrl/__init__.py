"""Instrumentation of SkyRL: its trainers, their phases and values, and the rollouts of its generator.

One Ray task runs the trainer and, as coroutines beside it, the rollouts. The trainer's timer names the parts of a step,
the step itself among them; ``Tracking`` has what it logs. Calls of the engine are those of ``aiohttp`` below SkyRL's
client, which counts the versions of the weights.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SkyrlInstrumentor(Instrumentor):
    """Patches the trainers, the timer, the tracker, the generators and the client of the engines."""

    requirements: ClassVar = ("skyrl >= 0.4, < 0.5",)
    needs = ("ray", "aiohttp")
    training: ClassVar = {
        "steps": "known",
        "phases": "those of its timer",
        "values": "what `Tracking` logs",
    }
    modules: ClassVar = {
        "skyrl.train.utils.utils": "timer:patch_timer",
        "skyrl.train.utils.tracking": "patch:patch_tracking",
        "skyrl.train.trainer": "patch:patch_trainer",
        "skyrl.train.fully_async_trainer": "patch:patch_async_trainer",
        "skyrl.train.sft_trainer": "patch:patch_sft_trainer",
        "skyrl.train.generators.skyrl_gym_generator": "patch:patch_generator",
        "skyrl.train.generators.skyrl_vlm_generator": "patch:patch_vlm_generator",
        "skyrl.backends.skyrl_train.inference_servers.remote_inference_client": "patch:patch_client",
    }
