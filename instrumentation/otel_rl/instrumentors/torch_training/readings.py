"""What is read of optimizers, losses and batches; none of it computes on a device or waits for one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from otel_rl.training.guessed_records import MissingGradients

#: It is being imported: nothing here imports it.
torch: Any = sys.modules.get("torch")
#: Where the tokens of a batch are, as Transformers names them.
_TOKENS = "input_ids"
#: Dimensions of a batch of tokens: samples, and places.
_SEQUENCES = 2
#: Most parameters of an optimizer that are looked at in each step, in turn; when something has changed all are counted,
#: which takes half a microsecond for each and is not done again for some steps.
_LOOKED_AT, _STEPS_BETWEEN_COUNTS = 64, 4
#: The golden ratio: its multiples find each part soon, and with each of the tasks that take turns.
_GOLDEN, _WORD = 0x9E3779B1, 0xFFFFFFFF
#: Where Megatron's optimizers have gradients instead of ``grad``:
#: https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/optimizer/distrib_optimizer.py
_OTHER_GRADIENTS = ("main_grad", "decoupled_grad")


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


class _Without(NamedTuple):
    """Of a part of the parameters: the places of those that miss a gradient, and how many are frozen."""

    missing: frozenset[int]
    frozen: int


class _Gradients:
    """What was last counted of one optimizer, by part."""

    __slots__ = ("counted", "counts", "moves", "never", "number", "step", "version", "was_missing", "watched")

    def __init__(self) -> None:
        self.counts: list[_Without] = []
        #: Places of those that have missed it at each look: a head that is not of a step's task is no fault.
        self.never: list[frozenset[int]] = []
        self.number = -1
        self.step, self.counted = 0, -_STEPS_BETWEEN_COUNTS
        self.was_missing = False
        #: A parameter with a gradient, how often it had been changed at the last step, and whether a step changes it.
        self.watched: Any = None
        self.version, self.moves = -1, False

    def is_unchanged(self, groups: Any) -> bool:
        """Return whether the step has changed nothing, though earlier ones had.

        PyTorch counts the changes of a tensor; those of fused and foreign kernels it does not see.
        """
        watched = self.watched() if self.watched is not None else None
        if watched is None or watched.grad is None:
            watched = next((one for group in groups for one in group["params"] if one.grad is not None), None)
            self.watched, self.version = ref(watched) if watched is not None else None, -1
        if watched is None:
            return False
        before, self.version = self.version, watched._version  # noqa: SLF001 - PyTorch names it in its own messages
        self.moves = self.moves or -1 < before < self.version
        return self.moves and before == self.version


_by_optimizer: WeakKeyDictionary[Any, _Gradients] = WeakKeyDictionary()


def missing_gradients(optimizer: Any) -> MissingGradients | None:
    """Return how many trainable parameters miss a gradient: all of them at this step, else those without one so far.

    None while no parameter has been one of these, and each step has changed something.
    """
    found, groups = _by_optimizer.get(optimizer), optimizer.param_groups
    if found is None:
        found = _by_optimizer[optimizer] = _Gradients()
    number = sum([len(group["params"]) for group in groups])
    parts = max(-(-number // _LOOKED_AT), 1)
    found.step += 1
    if found.number != number:
        found.number, found.counts = number, _count(groups, parts)
        found.never = [one.missing for one in found.counts]
    else:
        part = (found.step * _GOLDEN & _WORD) * parts >> 32
        may_count = parts == 1 or found.step > found.counted + _STEPS_BETWEEN_COUNTS
        if may_count or found.never[part]:
            without = _without_gradient(groups, part, parts)
            found.never[part] &= without.missing
            if may_count and found.counts[part] != without:
                found.counts, found.counted = _count(groups, parts) if parts > 1 else [without], found.step
                found.never = [never & one.missing for never, one in zip(found.never, found.counts, strict=True)]
    trainable = number - sum([one.frozen for one in found.counts])
    missing = sum([len(one.missing) for one in found.counts])
    if missing < trainable:
        missing = sum(map(len, found.never))
    is_unchanged = found.is_unchanged(groups)
    if not (missing or is_unchanged or found.was_missing):
        return None
    found.was_missing = True
    return MissingGradients(missing, trainable, is_unchanged)


def _count(groups: Any, parts: int) -> list[_Without]:
    return [_without_gradient(groups, part, parts) for part in range(parts)]


def _without_gradient(groups: Any, part: int, parts: int) -> _Without:
    places = enumerate([one for group in groups for one in group["params"][part::parts]])
    without = [(place, one) for place, one in places if one.grad is None]
    if not without:
        return _NONE
    missing = frozenset(place for place, one in without if _is_missing(one))
    return _Without(missing, len(without) - len(missing))


_NONE = _Without(frozenset(), 0)


def _is_missing(parameter: Any) -> bool:
    # A rank may hold no element of a parameter that is sharded.
    is_trained = parameter.requires_grad and parameter.numel() > 0
    return is_trained and all(getattr(parameter, name, None) is None for name in _OTHER_GRADIENTS)


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
