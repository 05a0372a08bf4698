"""Wrappers of what loads models, tokenizers and data sets: parts of the run, which no step has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import run_parts

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

#: Methods that write a data set, which takes as long as the program's function.
_MAPS = ("map", "filter")


def patch_modeling_utils(module: ModuleType, patches: Patches) -> None:
    """Follow the method that loads all models, those of ``AutoModel`` too."""
    patches.observe(module, "PreTrainedModel.from_pretrained", **run_parts.following(Part.MODEL))


def patch_tokenization_utils_base(module: ModuleType, patches: Patches) -> None:
    """Follow the method that loads all tokenizers."""
    patches.observe(module, "PreTrainedTokenizerBase.from_pretrained", **run_parts.following(Part.TOKENIZER))


def patch_datasets_load(module: ModuleType, patches: Patches) -> None:
    """Follow ``load_dataset``, which downloads and reads."""
    patches.observe(module, "load_dataset", **run_parts.following(Part.DATASET))


def patch_arrow_dataset(module: ModuleType, patches: Patches) -> None:
    """Follow what prepares a data set, also within the making of a trainer of TRL."""
    for method in _MAPS:
        patches.observe(module, f"Dataset.{method}", **run_parts.following(Part.DATASET, _rows))


def _rows(data_set: Any, *_: Any, **__: Any) -> int:
    return len(data_set)
