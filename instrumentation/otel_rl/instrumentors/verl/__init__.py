"""Instrumentation of verl: its trainers, their phases and values, and its agent loops.

One Ray actor runs the trainer. Its one timer names the parts of a step, the step itself among them; ``Tracking`` has
what it logs. The workers of its agent loops run the rollouts: model calls, tools and scores. The numbers of a sample
are the row of its rollout, to which the trainer adds its advantage.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class VerlInstrumentor(Instrumentor):
    """Patches the trainers, the timer, the tracker, and the workers of agent loops."""

    requirements: ClassVar = ("verl >= 0.9.1, < 0.10",)
    needs = ("ray",)
    training: ClassVar = {
        "steps": "known",
        "phases": "those of its timer",
        "values": "what `Tracking` logs",
    }
    modules: ClassVar = {
        "verl.utils.profiler.performance": "patch:patch_timer",
        "verl.utils.tracking": "patch:patch_tracking",
        "verl.trainer.ppo.ray_trainer": "patch:patch_ray_trainer",
        "verl.trainer.ppo.v1.trainer_base": "patch:patch_trainer",
        "verl.trainer.ppo.v1.replay_buffer": "patch:patch_queue",
        "verl.trainer.ppo.v1.utils": "patch:patch_advantages",
        "verl.experimental.agent_loop.agent_loop": "patch:patch_agent_loop",
        "verl.experimental.agent_loop.tool_agent_loop": "patch:patch_tools",
        "verl.workers.rollout.llm_server": "patch:patch_model_calls",
    }
