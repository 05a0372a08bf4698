"""Methods of TRL's experimental trainers that are phases, by module and class.

The trainers of ``trl.trainer`` name their phases in profiling contexts; most of these do not. A phase has one method or
several, of which a version of TRL has one at least: where it has none, the instrumentor is "degraded".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Phase -> its methods.
Phases = dict[str, tuple[str, ...]]

MODULES: Mapping[str, Mapping[str, Phases]] = {
    "trl.experimental.a2po.a2po_trainer": {
        "A2POTrainer": {
            # Samples, scores and computes log-probabilities in one method.
            "sample": ("_prepare_inputs",),
            "reward": ("_calculate_rewards",),
            "log_probs": ("_get_sequence_logps",),
        }
    },
    "trl.experimental.async_distillation.async_distillation_trainer": {
        "AsyncDistillationTrainer": {"sync": ("_sync_weight",)}
    },
    "trl.experimental.async_grpo.async_grpo_trainer": {"AsyncGRPOTrainer": {"sync": ("_sync_weight",)}},
    "trl.experimental.gkd.gkd_trainer": {"GKDTrainer": {"sample": ("generate_on_policy_outputs",)}},
    "trl.experimental.gold.gold_trainer": {
        "GOLDTrainer": {
            "sample": (
                "_generate_on_policy_for_slices",
                "_generate_on_policy_vlm_raw",
                "_generate_on_policy_vlm_slice",
                "generate_on_policy_outputs",
            )
        }
    },
    "trl.experimental.iw_opd.iw_opd_trainer": {"IWOPDTrainer": {"sample": ("_generate_student_completions",)}},
    "trl.experimental.online_dpo.online_dpo_trainer": {
        "OnlineDPOTrainer": {
            "sample": ("_generate", "_generate_vllm"),
            "reward": ("_calculate_rewards_from_functions",),
            # Its own `training_step` computes the loss in line, from what this returns.
            "forward": ("_forward",),
            "sync": ("_move_model_to_vllm",),
        }
    },
    "trl.experimental.sdft.sdft_trainer": {"SDFTTrainer": {"sample": ("_generate",)}},
    "trl.experimental.sdpo.sdpo_trainer": {
        "SDPOTrainer": {"sample": ("_generate",), "reward": ("_calculate_rewards",)}
    },
}
