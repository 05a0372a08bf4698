"""Since when a value has another level, and until when: circular binary segmentation.

The stretch of a series that differs most from the rest of it, in standard errors of the difference of both means, is
the candidate. Its chance under no change is the share of random orders of the same values in which any stretch differs
as much: a permutation test, which assumes nothing of the values' distribution. The parts are then searched further
(Olshen, Venkatraman, Lucito and Wigler, "Circular binary segmentation for the analysis of array-based DNA copy number
data", Biostatistics 5, 2004). It stops trying where chance does well (Besag and Clifford, Biometrika 78, 1991).

Durations are compared as logarithms: a change is a ratio, and single long values weigh little. Whether a change is
large enough to matter is decided afterwards, on medians; on means for shares, whose median of few calls is 0 or 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

# NumPy imports it when it is asked for: in each child that renders a page of a run that is followed.
from numpy.random import default_rng

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Indices = np.ndarray[Any, np.dtype[np.intp]]

#: Fewest points on either side of a change.
FEWEST = 3
#: Fewest points of a series in most places of which a change shows: of fewer, too many random orders differ as much.
ENOUGH = 16
#: Largest chance of a change where there is none, of one series.
_CHANCE = 0.005
_ORDERS, _ORDERS_AT_ONCE = 999, 111
#: Below these no order has to be tried: standard errors, and the difference of (logarithms of) both means.
_SMALLEST_DIFFERENCE, _SMALLEST_EFFECT = 3.0, 0.06
#: Points that are tested at once; longer series are averaged down, and the change is then located among all points.
_POINTS = 80
_DEEPEST = 6
#: Added to durations before their logarithm, in s: what is shorter does not matter.
_SHORT = 1e-3
#: A part is a stage of a rise where it has come this much of the way.
_ON_THE_WAY = 0.2
#: Seconds for which a series that is followed is not looked at again.
FRESH = 30.0


@dataclass(frozen=True, slots=True)
class Rise:
    """A series is higher from point ``first`` to point ``last`` than before; medians of both, means for shares."""

    first: int
    last: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class _EarlierLook:
    """What was found in a series of so many points; ``moment`` in s of the monotonic clock."""

    moment: float
    points: int
    found: Rise | None


class EarlierLooks:
    """What was found in series that grow: to look again at each new point would cost most of what following a run does.

    A series is looked at again after :data:`FRESH` seconds.
    """

    def __init__(self) -> None:
        self._looks: dict[Hashable, _EarlierLook] = {}

    def rise(self, key: Hashable, points: int, look: Callable[[], Rise | None]) -> Rise | None:
        """Return what ``look`` finds, or has found lately in the series with this key; what went on goes on."""
        now, earlier = time.monotonic(), self._looks.get(key)
        if earlier is None or points < earlier.points or now > earlier.moment + FRESH:
            earlier = self._looks[key] = _EarlierLook(now, points, look())
        found = earlier.found
        if found is not None and found.last == earlier.points - 1:
            return replace(found, last=points - 1)
        return found


def rise(values: Sequence[float], *, factor: float = 1.3, least: float = 0.0, ratio: bool = True) -> Rise | None:
    """Return the largest lasting rise of a series, or None.

    Args:
        values: one per step, none of them missing.
        factor: smallest ratio of the levels after and before.
        least: smallest difference of them.
        ratio: True for durations, which are compared as logarithms; False for shares.
    """
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2 * FEWEST:
        return None
    compared = np.log(np.maximum(array, 0.0) + _SHORT) if ratio else array
    level = _median if ratio else _mean
    starts = [0, *sorted(_changes(compared, 0, _DEEPEST)), len(array)]
    levels = [level(compared[begin:end]) for begin, end in pairwise(starts)]
    candidates = []
    for number in range(1, len(levels)):
        end = _end(levels, number, level(compared[: starts[number]]))
        if end is not None:
            candidates.append(_rise(array, starts, levels, number, end, level))
    notable = [
        candidate
        for candidate in candidates
        if candidate.after >= factor * candidate.before and candidate.after - candidate.before >= least
    ]
    return max(
        notable,
        key=lambda candidate: (candidate.after - candidate.before) * (candidate.last + 1 - candidate.first),
        default=None,
    )


def _median(values: Array) -> float:
    return float(np.median(values))


def _mean(values: Array) -> float:
    return float(np.mean(values))


def _end(levels: list[float], number: int, before: float) -> int | None:
    """Return the part at which a rise that begins with part ``number`` is over; None where no rise begins there."""
    if levels[number] <= max(before, levels[number - 1]):
        return None
    end = number
    while end < len(levels) and levels[end] > before + _ON_THE_WAY * (max(levels[number : end + 1]) - before):
        end += 1
    # What was a little higher before the rise itself is not its beginning.
    way = levels[number] - before
    return end if way >= _ON_THE_WAY * (max(levels[number:end]) - before) else None


def _rise(
    array: Array, starts: list[int], levels: list[float], number: int, end: int, level: Callable[[Array], float]
) -> Rise:
    begin, parts = starts[number], levels[number:end]
    # A slow rise has several stages, and has come to the last of them.
    first = starts[end - 1] if parts[-1] == max(parts) else begin
    return Rise(begin, starts[end] - 1, level(array[:begin]), level(array[first : starts[end]]))


def _changes(values: Array, offset: int, depth: int) -> list[int]:
    """Return places at which a new level begins."""
    if len(values) < 2 * FEWEST or depth == 0:
        return []
    places = _stretch(values)
    edges = [0, *places, len(values)]
    if not places:
        return []
    inner = [
        place for begin, end in pairwise(edges) for place in _changes(values[begin:end], offset + begin, depth - 1)
    ]
    return [*(offset + place for place in places), *inner]


def _stretch(values: Array) -> list[int]:
    """Return begin and end of the stretch that differs most, or no ends where chance explains it."""
    parts = np.array_split(values, min(len(values), _POINTS))
    few = np.array([part.mean() for part in parts])
    begins, ends = _stretches(len(few))
    differences, effects = _differences(few[np.newaxis, :], begins, ends)
    best = int(differences[0].argmax())
    largest = float(differences[0, best])
    if largest < _SMALLEST_DIFFERENCE or effects[0, best] < _SMALLEST_EFFECT or _is_chance(few):
        return []
    first = np.cumsum([0, *map(len, parts)])
    width = len(parts[0])
    edges = [int(first[edge]) for edge in (begins[best], ends[best]) if 0 < edge < len(few)]
    return edges if width == 1 else [_located(values, place, 2 * width) for place in edges]


def _is_chance(few: Array) -> bool:
    """Return whether in too many random orders a stretch differs as much as the one that differs most."""
    generator = default_rng(0)
    centred = few - few.mean()
    # Sums of the same numbers in another order differ by rounding.
    largest = _most_between(centred[np.newaxis, :])[0] * (1 - 1e-9)
    most, reached = int(_CHANCE * (_ORDERS + 1)), 0
    for _ in range(_ORDERS // _ORDERS_AT_ONCE):
        orders = generator.permuted(np.tile(centred, (_ORDERS_AT_ONCE, 1)), axis=1)
        reached += int((_most_between(orders) >= largest).sum())
        if reached + 1 > most:
            return True
    return False


def _most_between(rows: Array) -> Array:
    """Return for each row, whose mean is 0, the most that a stretch explains of the sum of squares.

    Orders of the same values have one sum of squares: that stretch is the one of the largest difference in standard
    errors too, and takes a tenth of the time to find. The stretches are those of :func:`_stretches`.
    """
    number = rows.shape[1]
    sums = np.zeros((number + 1, len(rows)))
    np.cumsum(rows.T, axis=0, out=sums[1:])
    inside = np.abs(sums[FEWEST : number - FEWEST + 1])
    for size in range(FEWEST, number - 2 * FEWEST + 1):
        later = sums[FEWEST + size : number - FEWEST + 1] - sums[FEWEST : number - FEWEST + 1 - size]
        np.maximum(inside[size - FEWEST], np.abs(later, out=later).max(axis=0), out=inside[size - FEWEST])
    sizes = np.arange(FEWEST, number - FEWEST + 1)[:, np.newaxis]
    most: Array = (inside**2 * (number / (sizes * (number - sizes)))).max(axis=0)
    return most


def _stretches(number: int) -> tuple[Indices, Indices]:
    """Return begins and ends of all stretches with enough points inside and outside, the outside for the last ones."""
    begins, ends = np.triu_indices(number, k=FEWEST)
    kept = (begins == 0) | (begins >= FEWEST)
    kept &= ends <= number - FEWEST
    return begins[kept], ends[kept]


def _differences(rows: Array, begins: Indices, ends: Indices) -> tuple[Array, Array]:
    """Return for each row and stretch its difference to the rest, in units of its standard error, and as it is."""
    number = rows.shape[1]
    sums = np.zeros((len(rows), number + 1))
    rows.cumsum(axis=1, out=sums[:, 1:])
    total, squares = sums[:, -1:], (rows**2).sum(axis=1, keepdims=True)
    size = ends - begins
    inside = sums[:, ends] - sums[:, begins]
    mean, rest = inside / size, (total - inside) / (number - size)
    within = squares - size * mean**2 - (number - size) * rest**2
    # Equal values on both sides differ by infinitely many standard errors: an error of rounding stands for them.
    variance = np.maximum(within, 1e-12 * (1.0 + squares)) / (number - 2)
    effects = np.abs(mean - rest)
    return effects / np.sqrt(variance * (1 / size + 1 / (number - size))), effects


def _located(values: Array, place: int, reach: int) -> int:
    """Return the place among all points, at most ``reach`` from the place among averages."""
    begin, end = max(place - reach, 0), min(place + reach, len(values))
    window = values[np.newaxis, begin:end]
    ends = np.arange(FEWEST, window.shape[1] - FEWEST + 1)
    return begin + FEWEST + int(_differences(window, np.zeros_like(ends), ends)[0][0].argmax())
