"""Instrumentation of Tinker's cookbook: its loops of reinforcement and supervised learning.

A step is what ``trace_iteration`` is around, with the number that the cookbook logs it under, from 0 on. In supervised
learning, where the next batch is submitted before the one before is finished, a step ends when its values are logged;
the next one begins then. Timers of the cookbook are phases where the registry has a name for them
(:data:`.loops.PHASES`). What tasks beside the loop do, such as rollouts of asynchronous training, is no phase of it.

A rollout is a trace of its own with a row: its group, its rewards, and its advantage once the cookbook trains on it.
What ``MultiplexLogger`` hands to its loggers becomes metrics and one event per log call.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TinkerCookbookInstrumentor(Instrumentor):
    """Patches the cookbook's timers, logger, rollouts and the functions that its loops consist of."""

    requirements: ClassVar = ("tinker-cookbook >= 0.5.7, < 1",)
    needs = ("tinker",)
    training: ClassVar = {
        "steps": "known",
        "phases": "sampling, training, sync, checkpoint, evaluation, log-probabilities, data wait, and those of tinker",
        "values": "`MultiplexLogger.log_metrics`",
    }
    modules: ClassVar = {
        "tinker_cookbook.checkpoint_utils": "loops:patch_checkpoints",
        "tinker_cookbook.rl.data_processing": "rollouts:patch_data_processing",
        "tinker_cookbook.rl.rollout_runner": "rollouts:patch_rollout_runner",
        "tinker_cookbook.rl.rollouts": "rollouts:patch_rollouts",
        "tinker_cookbook.rl.train": "loops:patch_rl_train",
        "tinker_cookbook.supervised.train": "loops:patch_supervised_train",
        "tinker_cookbook.utils.ml_log": "loops:patch_logger",
        "tinker_cookbook.utils.trace": "loops:patch_trace",
    }
