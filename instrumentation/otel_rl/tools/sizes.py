"""Size of a value as JSON, without encoding it: of requests and answers of a library, and of anything."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

#: Values that are looked at; what is beyond counts as nothing.
_MOST = 10_000
#: The same for arguments and results of a program's own tools; those with more have no size.
_MOST_PLAIN = 1_000
_SCALARS = (bool, int, float, type(None))
#: Python writes no longer whole numbers out (`sys.get_int_max_str_digits`).
_MOST_BITS = 2_048
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
        piece = waiting.pop()
        # What is added below is looked at: at most as many wait as are left.
        if isinstance(piece, str | bytes):
            total += len(piece) + 2
        elif isinstance(piece, dict):
            total += max(2, 1 + 2 * len(piece))
            waiting += islice(chain(piece.keys(), piece.values()), left - len(waiting))
        elif isinstance(piece, list | tuple):
            total += max(2, 1 + len(piece))
            waiting += islice(piece, left - len(waiting))
        elif hasattr(type(piece), "model_fields"):
            # An object of the library; fields without a value do not go over the wire.
            if len(waiting) < left:
                waiting.append({name: part for name, part in vars(piece).items() if part is not None})
        else:
            total += _of_scalar(piece)
    return total


def plain_size(value: Any) -> int | None:
    """Like :func:`size_of`, for what may be anything: None unless all of it is of Python's plain types.

    Nothing of the program runs: no property, iterator or conversion. Nor is more than a thousand values looked at.
    """
    if type(value) is str:
        return len(value) + 2
    total, left, waiting = 0, _MOST_PLAIN, [value]
    while waiting:
        left -= 1
        piece = waiting.pop()
        kind = type(piece)
        if kind is str or kind is bytes:
            total += len(piece) + 2
        elif kind in _SCALARS and not (kind is int and piece.bit_length() > _MOST_BITS):
            total += _of_scalar(piece)
        elif kind is dict and len(waiting) + 2 * len(piece) <= left:
            total += max(2, 1 + 2 * len(piece))
            waiting += piece.keys()
            waiting += piece.values()
        elif (kind is list or kind is tuple) and len(waiting) + len(piece) <= left:
            total += max(2, 1 + len(piece))
            waiting += piece
        else:
            return None
    return total


def _of_scalar(value: Any) -> int:
    if isinstance(value, float):
        return len(repr(value))
    if type(value) is int:
        return len(str(value)) if -_LARGEST < value < _LARGEST else value.bit_length() // 3
    return 5 if value is False else _WORD
