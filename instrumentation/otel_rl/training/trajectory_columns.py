"""What is known of several trajectories: a list per column, of values that OTLP and JSON can carry."""

from __future__ import annotations

import math
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.telemetry.attribute_values import number, text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH, MAXIMUM_TURNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: Integers of OTLP lie below this one.
_INTEGERS = 1 << 63
#: Most rows of one record.
ROWS_PER_RECORD = 512
#: Most characters of one record, as JSON: Loki takes lines of 256 kB.
CHARACTERS_PER_RECORD = 200_000
#: Characters of a number with a fraction, and of any other value that is no text and no list, with a comma.
_FRACTION, _OTHER = 22, 6


class Columns(NamedTuple):
    """What is known of some trajectories.

    Attributes:
        values: by attribute, a value per trajectory.
        scores: by reward function, likewise.
        weights: of reward functions, where they are not 1.
        estimator: formula of the advantages, empty where they have none that is known; None without advantages.
        group_size: samples of a group.
        metrics: the program's own values by name, a value per trajectory.
    """

    values: Mapping[str, Sequence[Any]]
    scores: Mapping[str, Sequence[Any]]
    weights: Mapping[str, float | None] = MappingProxyType({})
    estimator: str | None = None
    group_size: int | None = None
    metrics: Mapping[str, Sequence[Any]] = MappingProxyType({})


def joined(
    parts: Sequence[Mapping[str, Sequence[Any]]],
    counts: Sequence[int],
    clean: Callable[[Any], Any],
    most: int | None = None,
) -> dict[str, list[Any]]:
    """The columns of several parts as one, in the order in which they came, without those that hold nothing."""
    found: dict[str, list[Any]] = {}
    for key in islice({key: None for part in parts for key in part}, most):
        values: list[Any] = []
        for part, count in zip(parts, counts, strict=True):
            given = _cleaned(list(islice(part.get(key, ()), count)), clean)
            values += given + [None] * (count - len(given))
        if any(value is not None for value in values):
            found[key] = values
    return found


def _cleaned(values: list[Any], clean: Callable[[Any], Any]) -> list[Any]:
    """``clean`` of each value. Most columns are of one kind that it leaves as it is: these are looked at as a whole."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and _is_clean(kinds.pop(), values, is_plain=clean is plain):
        return values
    return [clean(value) for value in values]


def _is_clean(kind: type, values: list[Any], *, is_plain: bool) -> bool:
    if kind is float:
        return all(map(math.isfinite, values))
    if kind is int:
        return bool(min(values) >= -_INTEGERS and max(values) < _INTEGERS)
    if kind is str and is_plain and max(map(len, values)) <= MAXIMUM_LENGTH:
        together = "".join(values)
        return together.isascii() and "\0" not in together
    return is_plain and kind in (bool, type(None))


def parts(columns: Iterable[Sequence[Any]], of_numbers: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Begin and end of the rows of each record, and its characters: fewer rows where texts are long, or lists.

    Args:
        columns: as they go into the records.
        of_numbers: further columns, which hold numbers only.
        count: rows of all of them.
    """
    begin = characters = 0
    for place, size in enumerate(_sizes(columns, of_numbers * _FRACTION, count)):
        if place > begin and (characters + size > CHARACTERS_PER_RECORD or place - begin == ROWS_PER_RECORD):
            yield begin, place, characters
            begin, characters = place, 0
        characters += size
    if count:
        yield begin, count, characters


def _sizes(columns: Iterable[Sequence[Any]], fixed: int, count: int) -> list[int]:
    """Characters of each row, about."""
    found = [0] * count
    for values in columns:
        kinds = set(map(type, values))
        if str in kinds or list in kinds:
            found = [size + _size(value) for size, value in zip(found, values, strict=True)]
        else:
            fixed += _FRACTION if float in kinds else _OTHER
    return [size + fixed for size in found]


def _size(value: Any) -> int:
    if type(value) is str:
        # Python writes ASCII only: a character beyond has six then.
        return (len(value) if value.isascii() else 6 * len(value)) + 3
    return len(value) * _FRACTION + 3 if type(value) is list else _OTHER


def weight_of(name: str, made: Sequence[Columns]) -> float | None:
    """The weight of a reward function; None where the trajectories do not agree."""
    found = {one.weights.get(name, 1.0) for one in made if name in one.scores}
    return finite(found.pop()) if len(found) == 1 else None


def common(values: Iterable[Any]) -> Any:
    """The one value that there is; None where there is none, or several."""
    found = {value for value in values if value is not None}
    return (found.pop() or None) if len(found) == 1 else None


def plain(value: Any) -> Any:
    """A truth value, a finite number, a short text or a list of numbers; None for anything else."""
    if value is None or type(value) is bool:
        return value
    if type(value) is list:
        return [finite(one) for one in islice(value, MAXIMUM_TURNS)]
    return text(value, MAXIMUM_LENGTH) if isinstance(value, str) else finite(value)


def finite(value: Any) -> float | int | None:
    """The number that ``value`` is, where OTLP and JSON can carry it."""
    if type(value) is not float and type(value) is not int:
        try:
            value = number(value)
        except Exception:  # noqa: BLE001 - code of the program runs here
            return None
    if type(value) is int:
        return value if -_INTEGERS <= value < _INTEGERS else None
    return value if value is not None and math.isfinite(value) else None
