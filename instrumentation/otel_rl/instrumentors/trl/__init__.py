"""Instrumentation of TRL: what its trainers do beyond the Transformers ``Trainer``.

Sampling, generation, log-probabilities, rewards and weight synchronisation become phases of the step that the
``transformers`` instrumentor opens. TRL's own ``ProfilingContext`` names most of them; the methods of trainers that do
not use it are in ``methods``. Each reward function gets a span and a histogram of its raw scores. Of the calls to
``tools=[...]`` the slowest and the failed become ``execute_tool`` spans (``OTEL_RL_SLOWEST``), all of them go into a
duration histogram.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TRLInstrumentor(Instrumentor):
    """Patches ``ProfilingContext`` and the sampling, reward, sync and tool methods of the trainers."""

    requirements: ClassVar = ("trl >= 0.27, < 2",)
    needs = ("transformers",)
    training: ClassVar = {
        "steps": "known, as of transformers",
        "phases": "sampling, log-probabilities, rewards, weight sync, and those of transformers",
        "values": "what the trainer logs",
    }
    modules: ClassVar = {
        "trl": "patch:register_system",
        "trl.extras.profiling": "patch:patch_profiling",
        "trl.generation.vllm_generation": "patch:patch_vllm_generation",
        "trl.trainer.grpo_trainer": "patch:patch_grpo_trainer",
        "trl.trainer.rloo_trainer": "patch:patch_rloo_trainer",
        "trl.trainer.distillation_trainer": "patch:patch_distillation_trainer",
        "trl.experimental.a2po.a2po_trainer": "patch:patch_methods",
        "trl.experimental.async_distillation.async_distillation_trainer": "patch:patch_methods",
        "trl.experimental.async_grpo.async_grpo_trainer": "patch:patch_async_grpo_trainer",
        "trl.experimental.gkd.gkd_trainer": "patch:patch_methods",
        "trl.experimental.gold.gold_trainer": "patch:patch_methods",
        "trl.experimental.iw_opd.iw_opd_trainer": "patch:patch_methods",
        "trl.experimental.online_dpo.online_dpo_trainer": "patch:patch_methods",
        "trl.experimental.sdft.sdft_trainer": "patch:patch_methods",
        "trl.experimental.sdpo.sdpo_trainer": "patch:patch_methods",
    }
