"""Size of a value as JSON, without encoding it."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

#: Values that are looked at; what is beyond counts as nothing.
_MOST = 10_000
#: Characters of `true`, `null` and of what JSON has no form for, about.
_WORD = 4
#: Larger whole numbers are estimated: writing them out takes long.
_LARGEST = 10**18


def size_of(value: Any) -> int:
    """Characters of ``value`` as JSON without blanks, escapes not counted.

    Texts count with their length, so what makes a result large, a page or a picture, is counted and never copied.
    """
    total, left, waiting = 0, _MOST, [value]
    while waiting and left:
        left -= 1
        one = waiting.pop()
        # What is added below is looked at: at most as many wait as are left.
        if isinstance(one, str | bytes):
            total += len(one) + 2
        elif isinstance(one, dict):
            total += max(2, 1 + 2 * len(one))
            waiting += islice(chain(one.keys(), one.values()), left - len(waiting))
        elif isinstance(one, list | tuple):
            total += max(2, 1 + len(one))
            waiting += islice(one, left - len(waiting))
        elif hasattr(type(one), "model_fields"):
            # An object of the library; fields without a value do not go over the wire.
            if len(waiting) < left:
                waiting.append({name: part for name, part in vars(one).items() if part is not None})
        else:
            total += _of_scalar(one)
    return total


def _of_scalar(value: Any) -> int:
    if isinstance(value, float):
        return len(repr(value))
    if type(value) is int:
        return len(str(value)) if -_LARGEST < value < _LARGEST else value.bit_length() // 3
    return 5 if value is False else _WORD
