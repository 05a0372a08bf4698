"""Wrappers of the functions by which ``torch`` saves and loads."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.semconv.attributes import RlCheckpointFormatValues as Format
from otel_rl.semconv.attributes import RlCheckpointOperationValues as Operation
from otel_rl.training import checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.training.checkpoints import Staging, Transfer

    Function = Callable[..., Any]

_SAVE = guard("torch_checkpoint.save")


def patch_serialization(module: ModuleType, patches: Patches) -> None:
    """Follow ``torch.save`` and ``torch.load``, right after the import of the module that has them."""
    patches.replace(module, "save", _saving, required=True)
    patches.observe(module, "load", begin=_load_begins, end=_ended, required=True)


def patch_state_dict_saver(module: ModuleType, patches: Patches) -> None:
    """Follow the saves of ``torch.distributed.checkpoint``, before its package imports them by name."""
    patches.observe(module, "save", begin=_distributed_save_begins, end=_ended, required=True)
    patches.observe(module, "async_save", begin=_staging_begins, end=_staged, required=True)


def patch_state_dict_loader(module: ModuleType, patches: Patches) -> None:
    """Follow the loads of ``torch.distributed.checkpoint``."""
    patches.observe(module, "load", begin=_distributed_load_begins, end=_ended, required=True)


def _saving(original: Function) -> Function:
    """Return ``torch.save`` with what is recorded of it; written by hand, since programs save into memory often."""

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        target: Any = args[1] if len(args) > 1 else kwargs.get("f")
        transfer = None
        before = -1
        try:
            if checkpoints.may_be_in_memory(target):
                before = target.tell()
            else:
                transfer = checkpoints.begin(Operation.SAVE, Format.TORCH, target)
        except Exception as ours:  # noqa: BLE001 - counted
            _SAVE.handle(ours)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            with _SAVE:
                if transfer is not None:
                    transfer.end(error)
            raise
        try:
            if transfer is not None:
                transfer.end()
            elif before >= 0:
                checkpoints.count_in_memory(Format.TORCH, target.tell() - before)
        except Exception as ours:  # noqa: BLE001 - counted
            _SAVE.handle(ours)
        return result

    return save


def _load_begins(f: Any, *_: Any, **__: Any) -> Transfer | None:
    return checkpoints.begin(Operation.LOAD, Format.TORCH, f)


def _distributed_save_begins(*_: Any, checkpoint_id: Any = None, storage_writer: Any = None, **__: Any) -> Any:
    target, key = _target(checkpoint_id, storage_writer), _key(checkpoint_id, storage_writer)
    return checkpoints.begin(Operation.SAVE, Format.DISTRIBUTED, target, key)


def _staging_begins(*_: Any, checkpoint_id: Any = None, storage_writer: Any = None, **__: Any) -> Staging | None:
    return checkpoints.begin_staging(_target(checkpoint_id, storage_writer), _key(checkpoint_id, storage_writer))


def _distributed_load_begins(*_: Any, checkpoint_id: Any = None, storage_reader: Any = None, **__: Any) -> Any:
    return checkpoints.begin(Operation.LOAD, Format.DISTRIBUTED, _target(checkpoint_id, storage_reader))


def _target(checkpoint_id: Any, storage: Any) -> Any:
    """Return where the checkpoint lies: its id is a path, unless the storage is another one than files."""
    return checkpoint_id if checkpoint_id is not None else getattr(storage, "path", None)


def _key(checkpoint_id: Any, storage: Any) -> object:
    """Return what identifies the checkpoint in the call that the background makes, with the same arguments."""
    return str(checkpoint_id), id(storage)


def _ended(transfer: Transfer, _: Any, error: BaseException | None) -> None:
    transfer.end(error)


def _staged(staging: Staging, result: Any, error: BaseException | None) -> None:
    # Where the copy is made in the background too, the answer holds two futures (torch 2.9).
    staging.end(getattr(result, "upload_completion", result), error)
