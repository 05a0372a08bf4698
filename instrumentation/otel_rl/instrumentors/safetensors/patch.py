"""Wrappers of the functions that write and read a file of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlCheckpointFormatValues as Format
from otel_rl.semconv.attributes import RlCheckpointOperationValues as Operation
from otel_rl.training import checkpoints

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.training.checkpoints import Transfer


def patch_torch(module: ModuleType, patches: Patches) -> None:
    """Follow ``save_file`` and ``load_file``; ``save_model`` and ``load_model`` call them."""
    patches.observe(module, "save_file", begin=_save_begins, end=_ended, required=True)
    patches.observe(module, "load_file", begin=_load_begins, end=_ended, required=True)


def _save_begins(_tensors: Any, filename: Any, *_: Any, **__: Any) -> Transfer | None:
    return checkpoints.begin(Operation.SAVE, Format.SAFETENSORS, filename)


def _load_begins(filename: Any, *_: Any, **__: Any) -> Transfer | None:
    return checkpoints.begin(Operation.LOAD, Format.SAFETENSORS, filename)


def _ended(transfer: Transfer, _: Any, error: BaseException | None) -> None:
    transfer.end(error)
