"""A sum of the bits of a tensor, to see whether two tensors hold the same values.

The sum of two tensors that are joined is the sum of their sums. So a fused tensor of an engine (``qkv_proj``) is
compared with the parts that the trainer holds. Elements that are zero count nothing, as padding does, nor does the
order of the elements. Nothing here imports torch: its tensors are used, and functions of this module go to workers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Elements that are added up at once; the temporary memory is at most 16 bytes each.
_CHUNK = 1 << 21
#: Odd factors and a shift that spread 32 bits so that no two values meet: https://github.com/skeeto/hash-prospector
_FIRST, _SECOND, _SHIFT = 0x7FEB352D, -2073254261, 15
#: Bits that a shift without the sign leaves.
_SHIFTED = (1 << (32 - _SHIFT)) - 1
_MASK = (1 << 64) - 1
#: Bytes of an element -> the type of integers that its bits are read as; one of 8 bytes is two.
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int32"}


def sum_of(tensor: Any, dtype: Any = None) -> Any:
    """Return a tensor with one integer: the sum over ``tensor`` as if of floating type ``dtype``; None without data.

    Of a sharded tensor it is that of the part on this rank. Nothing is sent and no kernel is waited for.
    """
    torch = sys.modules["torch"]
    with torch.no_grad():
        tensor = tensor.detach()
        local = getattr(tensor, "to_local", None)
        if local is not None:
            tensor = local()
        integers = getattr(torch, _INTEGERS.get(tensor.element_size(), ""), None)
        if not tensor.numel() or integers is None or tensor.is_meta or not tensor.untyped_storage().nbytes():
            return None
        converts = dtype is not None and tensor.is_floating_point() and tensor.dtype != dtype
        if converts:
            integers = getattr(torch, _INTEGERS[dtype.itemsize])
        total = torch.zeros((), dtype=torch.int64, device=tensor.device)
        for part in _parts(tensor):
            bits = (part.to(dtype) if converts else part).contiguous().view(integers)
            # A tensor of our own from here on: integers of 32 bits are not copied before.
            mixed = bits.to(torch.int32) * _FIRST
            mixed.bitwise_xor_((mixed >> _SHIFT).bitwise_and_(_SHIFTED))
            total += mixed.mul_(_SECOND).sum(dtype=torch.int64)
        return total


def _parts(tensor: Any) -> Iterator[Any]:
    """Return views of ``tensor`` of at most ``_CHUNK`` elements; the order of the elements counts nothing."""
    if tensor.is_contiguous():
        yield from tensor.view(-1).split(_CHUNK)
    elif tensor.numel() <= _CHUNK:
        yield tensor
    else:
        for row in tensor.unbind(0):
            yield from _parts(row)


def sums_of(tensors: Iterable[Any], dtype: Any = None) -> list[int | None]:
    """Return the sums of several tensors; one wait per device."""
    totals = [sum_of(tensor, dtype) for tensor in tensors]
    by_device: dict[Any, list[int]] = {}
    for index, total in enumerate(totals):
        if total is not None:
            by_device.setdefault(total.device, []).append(index)
    sums: list[int | None] = [None] * len(totals)
    for indices in by_device.values():
        values = sys.modules["torch"].stack([totals[index] for index in indices]).tolist()
        for index, value in zip(indices, values, strict=True):
            sums[index] = value
    return sums


def sums_of_model(model: Any) -> list[tuple[str, int | None]]:
    """Return the parameters of ``model`` by their names; sent to the workers of an engine."""
    named = list(model.named_parameters())
    sums = sums_of(parameter for _, parameter in named)
    return [(name, value) for (name, _), value in zip(named, sums, strict=True)]


def added(*sums: int) -> int:
    """Return the sum of joined tensors, as an integer of 64 bits with a sign."""
    total = sum(sums) & _MASK
    return total - (1 << 64) if total >> 63 else total
