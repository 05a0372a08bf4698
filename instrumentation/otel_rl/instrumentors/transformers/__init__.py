"""Instrumentation of the Transformers ``Trainer`` and of everything that derives from it.

Each optimizer step becomes a step trace: data wait, forward and backward passes, optimizer, evaluation and checkpoint
are phases of it. What the trainer logs becomes metrics and one event per log call, from the one rank that logs.

A step is numbered as ``global_step`` will read after it. It begins when its batch has arrived, and stays open until the
trainer asks for the batch of the next one. So logging, evaluation and saving, which follow ``on_step_end``, belong to
the step they describe, and the wait for data lies between two steps.

What precedes the first step is recorded as parts of the run: loading a model, a tokenizer or a data set, also by
``datasets``, and making a trainer and preparing its training.

No callback is added to the trainer's list, where the program could see, move or remove it: the one method through which
all callbacks are called is wrapped instead.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TransformersInstrumentor(Instrumentor):
    """Patches ``Trainer``, its callbacks and arguments, ``Accelerator.backward``, and what loads models and data."""

    requirements: ClassVar = ("transformers >= 4.56, < 6", "accelerate >= 1.1, < 2", "datasets >= 2.14, < 6")
    training: ClassVar = {
        "steps": "known",
        "phases": "data wait, forward, backward, optimizer, evaluation, checkpoint",
        "values": "what the trainer logs",
    }
    modules: ClassVar = {
        "transformers.training_args": "patch:patch_training_args",
        "transformers.trainer_callback": "patch:patch_trainer_callback",
        "transformers.trainer": "patch:patch_trainer",
        "transformers.modeling_utils": "loading:patch_modeling_utils",
        "transformers.tokenization_utils_base": "loading:patch_tokenization_utils_base",
        "accelerate.accelerator": "patch:patch_accelerator",
        "datasets.load": "loading:patch_datasets_load",
        "datasets.arrow_dataset": "loading:patch_arrow_dataset",
    }
