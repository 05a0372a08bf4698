"""What a trainer says about itself: model, kind of loss, batch sizes."""

from __future__ import annotations

import os
import sys
from typing import Any

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes


def version() -> str | None:
    """Return the version of transformers."""
    return getattr(sys.modules.get("transformers"), "__version__", None)


def of_trainer(trainer: Any) -> dict[str, Any]:
    """Attributes for the steps of ``trainer``; what it does not have is left out.

    Batch sizes are per optimizer step and over all ranks, in samples.
    """
    details: dict[str, Any] = {}
    with guard("transformers.details"):
        args = trainer.args
        ranks = max(int(args.world_size), 1)
        train = args.train_batch_size * args.gradient_accumulation_steps * ranks
        sampled = getattr(args, "generation_batch_size", None)
        details = {
            attributes.RL_MODEL_NAME: _model_name(trainer.model),
            attributes.RL_LOSS_TYPE: _text(getattr(args, "loss_type", None)),
            attributes.RL_TRAIN_BATCH_SIZE: train,
            attributes.RL_SAMPLE_BATCH_SIZE: sampled if isinstance(sampled, int) else None,
        }
    return {key: value for key, value in details.items() if value is not None}


def of_run(trainer: Any) -> dict[str, Any]:
    """Attributes of the run that ``trainer`` knows."""
    with guard("transformers.run"):
        seed = getattr(trainer.args, "seed", None)
        return {
            attributes.RL_RUN_SEED: seed if type(seed) is int else None,
            attributes.RL_MODEL_NAME: _model_name(trainer.model),
            attributes.RL_DATASET_NAME: _dataset_name(trainer.train_dataset),
        }
    return {}


def _dataset_name(dataset: Any) -> str | None:
    info = getattr(dataset, "info", None)
    return _text(getattr(info, "dataset_name", None)) or _text(getattr(info, "builder_name", None))


def _model_name(model: Any) -> str | None:
    name = getattr(getattr(model, "config", None), "_name_or_path", None)
    if not isinstance(name, str) or not name:
        return None
    # Of a model in a folder, the name of the folder: where it lies is not what it is.
    return os.path.basename(name.rstrip(os.sep)) if os.path.isabs(name) else name  # noqa: PTH117, PTH119 - text


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return value if isinstance(value, str) and value else None
