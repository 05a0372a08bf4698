"""Since when a value has another level, and until when.

A level is found by circular binary segmentation: the stretch of a series that differs most from the rest of it, in
standard errors of the difference of both means (Olshen, Venkatraman, Lucito and Wigler, "Circular binary segmentation
for the analysis of array-based DNA copy number data", Biostatistics 5, 2004). Values that lie far from their
neighbours are drawn in, and the standard error grows with the correlation of what is left of neighbouring values: a
random walk has stretches at other levels all the time. The limits are calibrated on series without a change
(``tests/unit/report/test_levels.py``): independent and correlated noise, walks, ramps, waves, heavy tails, shares of
few calls, warm-ups.

Durations are compared as logarithms: a change is a ratio, and single long values weigh little. Whether a change is
large enough to matter is decided afterwards, on medians; on means for shares, whose median of few calls is 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Indices = np.ndarray[Any, np.dtype[np.intp]]

#: Fewest points on either side of a change.
FEWEST = 3
#: Points of a series from which on a change shows in most places. Of fewer only a manifold change does.
ENOUGH = 16
#: Standard errors of a difference that is no chance; in short series more, see :func:`_stretch`.
LIMIT, _SHORT_SERIES = 5.0, 6
#: Points that are looked at at once; longer series are averaged down, and the change is then located among all points.
_POINTS = 80
_DEEPEST = 6
#: Neighbours on either side of a value that is drawn in, and how many of their deviations it may lie away.
_NEIGHBOURS, _FAR = 3, 4.0
#: From a median absolute deviation to a standard deviation.
TO_DEVIATION = 1.4826
#: Logarithm of the ratio of the lowest value after and the highest one before a change that few points show.
_FAR_APART = 0.4
#: Added to durations before their logarithm, in s: what is shorter does not matter.
_SHORT = 1e-3
#: A part is a stage of a rise where it has come this much of the way.
_ON_THE_WAY = 0.2
#: And this much of it in the units of the values.
_STAGE = 0.05
#: A stage still rises where its last third is so many times its first one: it has come to the last third.
_STILL_RISING = 1.3


@dataclass(frozen=True, slots=True)
class Rise:
    """A series is higher from point ``first`` to point ``last`` than before; medians of both, means for shares.

    ``grows`` is True for one that rises bit by bit to its end: ``after`` is its level there.
    """

    first: int
    last: int
    before: float
    after: float
    grows: bool = False


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
    level = median if ratio else _mean
    # The values of a share are 0 and 1 where a step has one call: none of them lies far away.
    places = changes(drawn_in(compared) if ratio else compared)
    starts = [0, *(places or _apart(compared) if ratio else places), len(array)]
    levels = [level(compared[begin:end]) for begin, end in pairwise(starts)]
    candidates = []
    for number in range(1, len(levels)):
        end = _end(levels, number, level(compared[: starts[number]]))
        if end is not None:
            found = _rise(array, starts, levels, number, end, level)
            # Twice of next to nothing is no stage of a rise to seconds.
            if level(array[starts[number] : starts[number + 1]]) - found.before >= _STAGE * (
                found.after - found.before
            ):
                candidates.append(found)
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


def _apart(values: Array) -> list[int]:
    """Return the place at which a short series splits into two groups of values that lie far apart; else nothing.

    In a short series the correlation of neighbours explains almost any change of the mean, but no such gap.
    """
    highest, lowest = np.maximum.accumulate(values)[:-1], np.minimum.accumulate(values[::-1])[::-1][1:]
    gaps = (lowest - highest)[FEWEST - 1 : len(values) - FEWEST]
    return [FEWEST + int(gaps.argmax())] if len(gaps) and gaps.max() >= _FAR_APART else []


def median(values: Array) -> float:
    """Return the median."""
    return float(np.median(values))


def noise(values: Sequence[float] | Array) -> float:
    """Return the standard deviation of values around a level that may move, from their differences."""
    return TO_DEVIATION * median(np.abs(np.diff(values))) / 2**0.5


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
    stage = array[first : starts[end]]
    third = max(len(stage) // 3, FEWEST)
    if level is median and level(stage[-third:]) > _STILL_RISING * level(stage[:third]):
        stage = stage[-third:]
    return Rise(begin, starts[end] - 1, level(array[:begin]), level(stage))


# -- levels ------------------------------------------------------------------------------------------------------------


def drawn_in(values: Array) -> Array:
    """Return the values, those far from their neighbours drawn in."""
    if len(values) <= 2 * _NEIGHBOURS:
        return values
    padded = np.pad(values, _NEIGHBOURS, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1), axis=1)
    away = values - middle
    most = _FAR * TO_DEVIATION * float(np.median(np.abs(away)))
    drawn: Array = middle + np.clip(away, -most, most)
    return drawn


def changes(values: Array) -> list[int]:
    """Return the places at which a new level begins, in order."""
    return sorted(set(_places(values, 0, _DEEPEST)))


def _places(values: Array, offset: int, depth: int) -> list[int]:
    if len(values) < 2 * FEWEST or depth == 0:
        return []
    places = _stretch(values)
    edges = [0, *places, len(values)]
    if not places:
        return []
    inner = [place for begin, end in pairwise(edges) for place in _places(values[begin:end], offset + begin, depth - 1)]
    return [*(offset + place for place in places), *inner]


def _stretch(values: Array) -> list[int]:
    """Return begin and end of the stretch that differs most, or no ends where chance explains it."""
    parts = np.array_split(values, min(len(values), _POINTS))
    few = np.array([part.mean() for part in parts])
    few -= few.mean()
    begins, ends = _stretches(len(few))
    differences = _differences(few, begins, ends)
    best = int(differences.argmax())
    begin, end = int(begins[best]), int(ends[best])
    inside = np.zeros(len(few), dtype=bool)
    inside[begin:end] = True
    left = np.where(inside, few - few[inside].mean(), few - few[~inside].mean())
    if differences[best] / inflation(left) < LIMIT * (1 + _SHORT_SERIES / len(few)):
        return []
    first = np.cumsum([0, *map(len, parts)])
    width = len(parts[0])
    edges = [int(first[edge]) for edge in (begin, end) if 0 < edge < len(few)]
    return edges if width == 1 else [_located(values, place, 2 * width) for place in edges]


@lru_cache(maxsize=_POINTS)
def _stretches(number: int) -> tuple[Indices, Indices]:
    """Return begins and ends of all stretches with enough points inside and outside, the outside for the last ones."""
    begins, ends = np.triu_indices(number, k=FEWEST)
    kept = (begins == 0) | (begins >= FEWEST)
    kept &= ends <= number - FEWEST
    return begins[kept], ends[kept]


def _differences(values: Array, begins: Indices, ends: Indices) -> Array:
    """Return for each stretch its difference to the rest, in units of its standard error."""
    number = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    total, squares = sums[-1], float((values**2).sum())
    size = ends - begins
    inside = sums[ends] - sums[begins]
    mean, rest = inside / size, (total - inside) / (number - size)
    within = squares - size * mean**2 - (number - size) * rest**2
    # Equal values on both sides differ by infinitely many standard errors: an error of rounding stands for them.
    variance = np.maximum(within, 1e-12 * (1.0 + squares)) / (number - 2)
    differences: Array = np.abs(mean - rest) / np.sqrt(variance * (1 / size + 1 / (number - size)))
    return differences


def inflation(left: Array) -> float:
    """Return by how much a standard error is larger where neighbours are alike; for what is left of both levels.

    That of an autoregressive process of first order, whose coefficient few values show as too small by ``(1 + 3 r)/n``
    (Marriott and Pope, Biometrika 41, 1954).
    """
    squares = float((left**2).sum())
    if squares <= 0:
        return 1.0
    alike = float((left[1:] * left[:-1]).sum()) / squares
    alike = min(max(alike + (1 + 3 * alike) / len(left), 0.0), 0.97)
    return float(np.sqrt((1 + alike) / (1 - alike)))


def _located(values: Array, place: int, reach: int) -> int:
    """Return the place among all points, at most ``reach`` from the place among averages."""
    begin, end = max(place - reach, 0), min(place + reach, len(values))
    window = values[begin:end]
    ends = np.arange(FEWEST, len(window) - FEWEST + 1)
    return begin + FEWEST + int(_differences(window - window.mean(), np.zeros_like(ends), ends).argmax())
