"""Instrumentation of PyTorch Lightning's ``Trainer``, as ``lightning.pytorch`` and as ``pytorch_lightning``.

Each optimizer step becomes a step trace, numbered from 1: ``_batches_that_stepped`` as it reads after the step, since
``global_step`` counts every optimizer. Its batch, forward and backward passes and optimizer are phases of it. The step
stays open until the trainer asks for the next batch, so that logging, validation and saving belong to it.

What ``self.log`` hands to the loggers becomes metrics and one event per log call, whether there are loggers or not.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor

_MODULES = {
    "core.optimizer": "patch:patch_optimizer",
    "loops.evaluation_loop": "patch:patch_evaluation_loop",
    "loops.prediction_loop": "patch:patch_prediction_loop",
    "loops.training_epoch_loop": "patch:patch_training_epoch_loop",
    "trainer.call": "patch:patch_call",
    "trainer.connectors.logger_connector.logger_connector": "scalars:patch_logger_connector",
    "trainer.trainer": "patch:patch_trainer",
}


class LightningInstrumentor(Instrumentor):
    """Patches the trainer, its loops, the functions through which it calls all hooks, and what feeds its loggers."""

    requirements: ClassVar = ("lightning >= 2.4, < 3",)
    builds: ClassVar = ("pytorch-lightning",)
    training: ClassVar = {
        "steps": "known",
        "phases": "data wait, forward, backward, optimizer, evaluation, checkpoint",
        "values": "self.log",
    }
    modules: ClassVar = {
        f"{package}.{module}": function
        for package in ("lightning.pytorch", "pytorch_lightning")
        for module, function in _MODULES.items()
    }
