"""What is read of optimizers, losses and batches; none of it computes on a device or waits for one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

#: It is being imported: nothing here imports it.
torch: Any = sys.modules.get("torch")
#: Where the tokens of a batch are, as Transformers names them.
_TOKENS = "input_ids"
#: Dimensions of a batch of tokens: samples, and places.
_SEQUENCES = 2


def size(optimizer: Any) -> int:
    """Return the number of parameters, whatever their groups."""
    return sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])


def first_parameter(optimizer: Any) -> object:
    """Return the first parameter; the optimizer itself where it has none."""
    return next((parameter for group in optimizer.param_groups for parameter in group["params"]), optimizer)


def learning_rate(optimizer: Any) -> float | None:
    """Return the first group's that is not zero, unless it is in the memory of a device: one group may be frozen."""
    rate = None
    for group in optimizer.param_groups:
        rate = group.get("lr")
        if not isinstance(rate, (float, int)) or rate:
            break
    return float(rate) if isinstance(rate, (float, int)) else value(rate)


def value(tensor: Any) -> float | None:
    """Return the value of a plain tensor with one element in host memory.

    None for others: reading it would wait for a device, or communicate.
    """
    if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.numel() != 1:
        return None
    try:
        return float(tensor.item())
    except (RuntimeError, TypeError):
        # Inside of a transform of `torch.func`, or complex.
        return None


def batch_size(batch: Any) -> tuple[int | None, int]:
    """Return samples and tokens of a batch: a tensor, a mapping of tensors or a sequence that begins with one."""
    if isinstance(batch, (list, tuple)):
        batch = batch[0] if batch else None
    elif not isinstance(batch, torch.Tensor) and isinstance(batch, Mapping):
        ids = batch.get(_TOKENS)
        if isinstance(ids, torch.Tensor) and ids.dim() == _SEQUENCES and not ids.is_floating_point():
            return ids.shape[0], ids.numel()
        batch = next((one for one in batch.values() if isinstance(one, torch.Tensor)), None)
    return (batch.shape[0] if isinstance(batch, torch.Tensor) and batch.dim() else None), 0
