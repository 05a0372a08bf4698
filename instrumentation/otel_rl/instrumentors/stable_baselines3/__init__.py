"""Stable-Baselines3: what its logger logs, its evaluations, and episodes of environments in processes of their own.

Its other vectors step environments of Gymnasium in the process, whose instrumentor counts them.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class StableBaselines3Instrumentor(Instrumentor):
    """Patches ``Logger.dump``, ``evaluate_policy``, the algorithms' base class and ``SubprocVecEnv``."""

    requirements: ClassVar = ("stable-baselines3 >= 2.4, < 3",)
    modules: ClassVar = {
        "stable_baselines3.common.base_class": "patch:patch_base_class",
        "stable_baselines3.common.logger": "patch:patch_logger",
        "stable_baselines3.common.evaluation": "patch:patch_evaluation",
        "stable_baselines3.common.vec_env.subproc_vec_env": "patch:patch_subproc_vec_env",
    }
