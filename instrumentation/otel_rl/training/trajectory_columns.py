"""What is known of several trajectories: a list per column, of values that OTLP and JSON can carry."""

from __future__ import annotations

import json
import math
from itertools import accumulate, islice
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
#: Most characters of one record, as Python writes JSON: Loki takes lines of 256 kB.
CHARACTERS_PER_RECORD = 200_000
#: Most characters of a number with a fraction, and of a truth value or nothing, with a comma and a space.
_FRACTION, _OTHER = 26, 7
#: Quotes, brackets, colon, comma and spaces around a column, and most of the two lists of columns with their keys.
_AROUND, _LISTS = 8, 64
#: Most characters of a name, as JSON: each record has all names. JSON writes a character as twelve at most.
_NAME, _MOST_PER_CHARACTER = 1024, 12


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


def rewards_of_turns(by_turn: Mapping[int, float]) -> tuple[list[float | None], list[float]]:
    """Return the reward of each turn up to the last that has one, and the sums up to each; empty for none."""
    last = max(by_turn, default=0)
    rewards = [by_turn.get(turn) for turn in range(1, last + 1)]
    return rewards, list(accumulate(reward or 0.0 for reward in rewards))


def joined(
    parts: Sequence[Mapping[str, Sequence[Any]]],
    counts: Sequence[int],
    clean: Callable[[Any], Any],
    most: int | None = None,
) -> dict[str, list[Any]]:
    """Return the columns of several parts as one, in the order in which they came, without those that hold nothing."""
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


def named(names: Iterable[str]) -> list[str]:
    """Names as they go into a record."""
    cut = [text(str(name), MAXIMUM_LENGTH) for name in names]
    return [name if len(json.dumps(name)) <= _NAME else text(name, (_NAME - 2) // _MOST_PER_CHARACTER) for name in cut]


def parts(
    columns: Mapping[str, Sequence[Any]],
    of_functions: Iterable[Sequence[Any]],
    common: Mapping[str, Any],
    count: int,
) -> Iterator[tuple[int, int, int]]:
    """Begin and end of the rows of each record, and its most characters: fewer rows where texts are long, or lists.

    Args:
        columns: as they go into the records.
        of_functions: further columns of numbers, which go into lists of columns.
        common: what each record has beside them.
        count: rows of all of them.
    """
    functions = list(of_functions)
    keys = sum(len(key) + _AROUND for key in columns)
    beside = len(json.dumps(common)) + keys + _LISTS + _AROUND * len(functions)
    given = [*columns.values(), *functions]
    if 0 < count <= ROWS_PER_RECORD:
        # Nearly all records: their rows need not be told apart.
        characters = beside + sum(_characters(values, count) for values in given)
        if characters <= CHARACTERS_PER_RECORD:
            yield 0, count, characters
            return
    begin, characters = 0, beside
    for place, size in enumerate(_sizes(given, count)):
        if place > begin and (characters + size > CHARACTERS_PER_RECORD or place - begin == ROWS_PER_RECORD):
            yield begin, place, characters
            begin, characters = place, beside
        characters += size
    if count:
        yield begin, count, characters


def _characters(values: Sequence[Any], count: int) -> int:
    """Most characters of a whole column."""
    kinds = set(map(type, values))
    if kinds == {str}:
        together = "".join(values)
        return (len(together) if _is_simple(together) else len(json.dumps(together))) + 4 * count
    if str in kinds or list in kinds:
        return sum(_sizes([values], count))
    return _number_size(kinds, values) * count


def _sizes(columns: Iterable[Sequence[Any]], count: int) -> list[int]:
    """Most characters of each row."""
    sizes, fixed = [0] * count, 0
    for values in columns:
        kinds = set(map(type, values))
        if str in kinds or list in kinds:
            is_simple = _is_simple("".join(value for value in values if type(value) is str))
            sizes = [size + _size(value, is_simple=is_simple) for size, value in zip(sizes, values, strict=True)]
        else:
            fixed += _number_size(kinds, values)
    return [size + fixed for size in sizes]


def _number_size(kinds: set[type], values: Sequence[Any]) -> int:
    """Most characters of a value in a column without texts and lists."""
    if float in kinds:
        return _FRACTION
    numbers = [value for value in values if type(value) is int] if int in kinds else ()
    # The longest of integers is the first or the last.
    return max(_OTHER, *(len(str(end(numbers))) + 2 for end in (min, max))) if numbers else _OTHER


def _is_simple(value: str) -> bool:
    """Return whether JSON writes each character as it is."""
    return value.isascii() and value.isprintable() and '"' not in value and "\\" not in value


def _size(value: Any, *, is_simple: bool) -> int:
    if type(value) is str:
        return len(value) + 4 if is_simple else len(json.dumps(value)) + 2
    # Of what is neither text nor list, an integer is the longest.
    return len(value) * _FRACTION + 4 if type(value) is list else _FRACTION


def weight_of(name: str, made: Sequence[Columns]) -> float | None:
    """Return the weight of a reward function; None where the trajectories do not agree."""
    weights = {columns.weights.get(name, 1.0) for columns in made if name in columns.scores}
    return finite(weights.pop()) if len(weights) == 1 else None


def common(values: Iterable[Any]) -> Any:
    """Return the only value; None for no value, or several."""
    known = {value for value in values if value is not None}
    return (known.pop() or None) if len(known) == 1 else None


def plain(value: Any) -> Any:
    """Return a truth value, a finite number, a short text or a list of numbers; None for anything else."""
    if value is None or type(value) is bool:
        return value
    if type(value) is list:
        return [finite(element) for element in islice(value, MAXIMUM_TURNS)]
    return text(value, MAXIMUM_LENGTH) if isinstance(value, str) else finite(value)


def finite(value: Any) -> float | int | None:
    """Return the number that ``value`` is, where OTLP and JSON can carry it."""
    if type(value) is not float and type(value) is not int:
        try:
            value = number(value)
        except Exception:  # noqa: BLE001 - code of the program runs here
            return None
    if type(value) is int:
        return value if -_INTEGERS <= value < _INTEGERS else None
    return value if value is not None and math.isfinite(value) else None
