"""Instrumentation of the Transformers ``Trainer`` and of everything that derives from it.

Each optimizer step becomes a step trace: data wait, forward and backward passes, optimizer, evaluation and checkpoint
are phases of it. What the trainer logs becomes metrics and one event per log call, from the one rank that logs.

A step is numbered as ``global_step`` will read after it. It begins when its batch has arrived, and stays open until the
trainer asks for the batch of the next one. So logging, evaluation and saving, which follow ``on_step_end``, belong to
the step they describe, and the wait for data lies between two steps.

No callback is added to the trainer's list, where the program could see, move or remove it: the one method through which
all callbacks are called is wrapped instead.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TransformersInstrumentor(Instrumentor):
    """Patches ``Trainer``, ``CallbackHandler.call_event``, ``TrainingArguments`` and ``Accelerator.backward``."""

    library = "transformers"
    requirements: ClassVar = ("transformers >= 4.56, < 6", "accelerate >= 1.1, < 2")
    modules: ClassVar = {
        "transformers.training_args": "patch:patch_training_args",
        "transformers.trainer_callback": "patch:patch_trainer_callback",
        "transformers.trainer": "patch:patch_trainer",
        "accelerate.accelerator": "patch:patch_accelerator",
    }
