"""What happens in one series: a curve that jumps, a value that stands still, growth, a cost that comes and goes.

The curves of a training move by themselves. So a change of their level counts only if it is a jump: lines through the
points before and after it must miss each other. A stretch in which a curve does not move at all counts, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from otel_rl.report.core.levels import FEWEST, LIMIT, TO_DEVIATION, changes, drawn_in, inflation, median
from otel_rl.report.core.levels import noise as noise_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Indices = np.ndarray[Any, np.dtype[np.intp]]

#: From a mean absolute deviation to a standard deviation.
_FROM_MEAN = 1.2533
#: Points on either side of a jump through which a line is drawn, and the fewest.
_WINDOW, _FEWEST_OF_A_LINE = 8, 4
#: Smallest share of the difference of both levels that is a jump and no slope, and how far above the gaps elsewhere.
_SHARP, _OTHER_GAPS = 0.5, 3.0
#: Points on either side from which on two levels are compared, at most so many of them; standard errors between them.
_LEVEL, _LONGEST_LEVEL, _CLEAR = 8, 40, 7.0
#: Share of the difference by which a level may drift, and deviations of its values that the difference must have.
_DRIFT, _DEVIATIONS = 0.34, 3.0
#: Equal values in a row that are no chance where the series varied before.
STILL = 8
#: Parts that growth is read from, the fewest in which it rises, the share of pairs of them that must rise, and by how
#: many deviations of a value.
_PARTS, _FEWEST_PARTS, _RISING, _GROWN = 12, 4, 0.9, 4.0
#: Share of the growth from which on it has begun.
_STARTED = 0.03
#: From so many times its first level on growth is one by factors.
_MANIFOLD = 4.0


@dataclass(frozen=True, slots=True)
class Jump:
    """A curve has another level from point ``first`` on; ``deviations`` of its values lie between both.

    ``is_exact`` is True where all values of either level are equal.
    """

    first: int
    before: float
    after: float
    deviations: float
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Still:
    """A series has one value from point ``first`` to its end, and ``varied`` between these two before."""

    first: int
    value: float
    varied: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Growth:
    """A series grows from point ``first`` to its end, from one level to another by so much a point."""

    first: int
    before: float
    after: float
    slope: float


# -- curves ------------------------------------------------------------------------------------------------------------


def jumps(values: Sequence[float]) -> list[Jump]:
    """Return where a curve jumps; slopes, waves and warm-ups are none."""
    array = np.asarray(values, dtype=np.float64)
    starts = [0, *changes(drawn_in(array)), len(array)]
    return [
        jump
        for before, place, after in zip(starts, starts[1:], starts[2:], strict=False)
        if (jump := _jump(array, before, place, after)) is not None
    ]


def _jump(values: Array, before: int, place: int, after: int) -> Jump | None:
    """Return the jump near a place between two others, if it is one."""
    number = len(values)
    near = range(max(place - 2, _FEWEST_OF_A_LINE), min(place + 2, number - _FEWEST_OF_A_LINE) + 1)
    if not near:
        return None
    of_reach = {reach: _gaps(values, reach) for reach in {min(_WINDOW, at, number - at) for at in near}}
    lines = [(at, reach, of_reach[reach]) for at in near for reach in [min(_WINDOW, at, number - at)]]
    place, reach, (gaps, errors) = max(lines, key=lambda line: abs(line[2][0][line[0] - line[1]]))
    gap, error = float(gaps[place - reach]), float(errors[place - reach])
    difference = median(values[place : place + reach]) - median(values[place - reach : place])
    others = np.abs(gaps[np.abs(np.arange(len(gaps)) + reach - place) >= reach])
    usual = _OTHER_GAPS * median(others) if len(others) >= reach else 0.0
    if gap * difference <= 0 or abs(gap) < max(_SHARP * abs(difference), usual):
        return None
    left = values[max(before, place - _LONGEST_LEVEL) : place]
    right = values[place : min(after, place + _LONGEST_LEVEL)]
    if not len(left) or not len(right):
        return None
    middle = median(left), median(right)
    noise = np.concatenate([left - middle[0], right - middle[1]])
    # More than half of few values may be equal, and few values of a walk lie close together.
    spreads = (
        TO_DEVIATION * median(np.abs(noise)),
        _FROM_MEAN * float(np.abs(noise).mean()),
        noise_of(values),
    )
    # Few values show too little of their spread.
    deviation = max(*spreads, 1e-9 * (1 + float(np.abs(values).max()))) * (1 + _LEVEL / len(values))
    sharp = abs(gap) >= LIMIT * (1 + 4 / reach**1.5) * error
    if not sharp and not _are_levels(left, right, noise, deviation):
        return None
    return Jump(place, *middle, abs(middle[1] - middle[0]) / deviation, not noise.any())


def _gaps(values: Array, reach: int) -> tuple[Array, Array]:
    """Return gaps between lines through ``reach`` points before and after, and their standard errors.

    The first one is at point ``reach``, the last one so many points before the end.
    """
    windows = np.lib.stride_tricks.sliding_window_view(values, reach)
    x = np.arange(reach) - (reach - 1) / 2
    means = windows.mean(axis=1)
    slopes = windows @ x / float((x * x).sum())
    left = ((windows - means[:, np.newaxis] - slopes[:, np.newaxis] * x) ** 2).sum(axis=1)
    half = slopes * reach / 2
    gaps = (means - half)[reach:] - (means + half)[:-reach]
    return gaps, np.sqrt((left[reach:] + left[:-reach]) / (2 * reach - 4) * 8 / reach)


def _are_levels(left: Array, right: Array, noise: Array, deviation: float) -> bool:
    """Return whether both parts are flat, and far from each other."""
    if min(len(left), len(right)) < _LEVEL:
        return False
    difference = abs(median(right) - median(left))
    drifts = [abs(median(part[-(len(part) // 3) :]) - median(part[: len(part) // 3])) for part in (left, right)]
    if max(drifts) > _DRIFT * difference or difference < _DEVIATIONS * deviation:
        return False
    error = deviation * np.sqrt(1 / len(left) + 1 / len(right)) * inflation(noise)
    return bool(difference >= _CLEAR * error)


# -- what stands still, grows, comes and goes --------------------------------------------------------------------------


def still(values: Sequence[float]) -> Still | None:
    """Return the stretch at the end of a series in which nothing moves; None where it moves, or is too short."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < STILL:
        return None
    moved = np.flatnonzero(array != array[-1])
    first = int(moved[-1]) + 1 if len(moved) else 0
    if len(array) - first < STILL:
        return None
    before = array[:first]
    # A schedule that has come to its last value, and a count that goes up now and then, stand still for long, too.
    if len(before) and (len(before) < FEWEST or len(np.unique(before)) < len(before) / 2):
        return None
    varied = (float(before.min()), float(before.max())) if len(before) else None
    return Still(first, float(array[-1]), varied)


def growth(values: Sequence[float]) -> Growth | None:
    """Return the growth of a series that rises to its end bit by bit; None for one that jumps or comes back."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < _PARTS:
        return None
    drawn = drawn_in(array)
    # What doubles again and again has grown for long before it is large; what grows by the same each step has not.
    by_factors = drawn.min() > 0 and median(drawn[-FEWEST:]) > _MANIFOLD * median(drawn[:FEWEST])
    return (_grown(array, np.log(drawn)) if by_factors else None) or _grown(array, drawn)


def _grown(array: Array, drawn: Array) -> Growth | None:
    parts = np.array_split(drawn, _PARTS)
    levels = np.array([median(part) for part in parts])
    whole = float(levels[-1] - levels[0])
    noise = np.concatenate([part - level for part, level in zip(parts, levels, strict=True)])
    deviation = TO_DEVIATION * median(np.abs(noise))
    if whole <= _GROWN * deviation or float(np.diff(levels).max()) > whole / 2:
        return None
    begin = int(np.flatnonzero(levels <= levels[0] + whole / 10)[-1])
    rising = levels[begin:]
    pairs = (rising[np.newaxis, :] - rising[:, np.newaxis])[np.triu_indices(len(rising), 1)]
    if len(rising) < _FEWEST_PARTS or (pairs > 0).mean() < _RISING:
        return None
    limit = levels[0] + max(_STARTED * whole, FEWEST * deviation)
    first = min(int(np.flatnonzero(drawn <= limit)[-1]) + 1, len(array) - FEWEST)
    before, after = median(array[: max(first, len(parts[0]))]), median(array[-len(parts[-1]) :])
    return Growth(first, before, after, (after - before) / max(len(array) - len(parts[-1]) / 2 - first, 1))


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A series is high in several stretches of points, each from a first to a last one, and usual in between.

    ``period`` is their distance in steps where that is always the same; ``extra`` is how much the values of all of them
    are above the usual one; ``is_chance`` is True where so many stretches are what chance makes of so many high points.
    """

    stretches: tuple[tuple[int, int], ...]
    period: int | None
    usual: float
    high: float
    extra: float
    is_chance: bool = False


#: Stretches that a recurrence has at least, its longest period, and the share of its points that lie above the others.
_RECURS, _LONGEST_PERIOD, _REGULAR = 3, 50, 0.8
#: Share of the stretches that points in any order make, from which on these are in no order.
_MIXED = 0.6
#: How many times the usual value a high one is, and by how many deviations of the usual ones it is above them.
_HIGH, _ABOVE = 2.0, 4.0
#: Share of the usual values that a value of a period is above.
_MOST = 0.9


def recurrence(x: Sequence[int], values: Sequence[float]) -> Recurrence | None:
    """Return what comes every n-th step or in bursts; None where one level explains the values.

    Args:
        x: steps, of which some may be missing.
        values: one for each of them.
    """
    array = np.asarray(values, dtype=np.float64)
    if len(array) < _RECURS * FEWEST:
        return None
    periodic, bursts = _periodic(np.asarray(x), array), _bursts(array)
    # A period that leaves much of the bursts out is none.
    if periodic is not None and (bursts is None or periodic.extra >= _REGULAR * bursts.extra):
        return periodic
    return bursts


def _periodic(x: Indices, values: Array) -> Recurrence | None:
    """Return the period that explains most; the smallest one does, as its multiples leave some of its points out."""
    longest = min(_LONGEST_PERIOD, int(x[-1] - x[0]) // _RECURS)
    found = [_of_period(x, values, period) for period in range(2, longest + 1)]
    return max((one for one in found if one is not None), key=lambda one: one.extra, default=None)


def _of_period(x: Indices, values: Array, period: int) -> Recurrence | None:
    remainders = x % period
    numbers = np.maximum(np.bincount(remainders, minlength=period), 1)
    (places,) = np.nonzero(remainders == int((np.bincount(remainders, values, period) / numbers).argmax()))
    usual = median(np.delete(values, places)) if len(places) < len(values) else 0.0
    if len(places) < _RECURS or len(places) == len(values):
        return None
    # It may have begun later, or be over.
    high = values[places] > max(_HIGH * usual, (usual + float(np.quantile(values[places], 0.75))) / 2)
    (known,) = np.nonzero(high)
    # A high value that the next one of the period does not follow is another thing.
    known = known[next((at for at, place in enumerate(known[:-1]) if known[at + 1] == place + 1), len(known)) :]
    if len(known) < _RECURS or high[known[0] : known[-1] + 1].mean() < _REGULAR:
        return None
    places = places[known]
    # Of short steps some are recorded, and the long ones of them more often.
    if len(places) < _REGULAR * (x[places[-1]] - x[places[0]]) / period:
        return None
    of_period = values[places]
    others = np.delete(values[places[0] : places[-1] + 1], places - places[0])
    usual, level = median(others) if len(others) else usual, median(of_period)
    if level < _HIGH * usual or (others > (usual + level) / 2).sum() > (1 - _MOST) * len(others):
        return None
    stretches = tuple((int(place), int(place)) for place in places)
    return Recurrence(stretches, period, usual, level, float((of_period - usual).sum()))


def _bursts(values: Array) -> Recurrence | None:
    ordered = np.sort(values)
    # The border between two groups of values that explains most of their variance (Otsu, 1979).
    sums, numbers = np.cumsum(ordered)[:-1], np.arange(1, len(ordered))
    low, high = sums / numbers, (ordered.sum() - sums) / (len(ordered) - numbers)
    border = int((numbers * (len(ordered) - numbers) * (high - low) ** 2).argmax())
    usual = ordered[: border + 1]
    middle, most = median(usual), float(ordered[border])
    deviation = TO_DEVIATION * median(np.abs(usual - middle))
    above = values > most
    if not above.any() or 2 * above.sum() > len(values) + 1:
        return None
    least, level = float(values[above].min()), median(values[above])
    # Of values that rise bit by bit the border is anywhere.
    apart = max(_ABOVE * deviation, (level - middle) / 4)
    if least < _HIGH * middle or min(least - middle, 2 * (least - most)) < apart:
        return None
    edges = np.flatnonzero(np.diff(np.concatenate([[0], above.astype(np.int8), [0]])))
    stretches = tuple((int(begin), int(end) - 1) for begin, end in edges.reshape(-1, 2))
    if len(stretches) < _RECURS:
        return None
    number, of_high = len(values), int(above.sum())
    by_chance = of_high * (number - of_high + 1) / number
    return Recurrence(
        stretches, None, middle, level, float((values[above] - middle).sum()), len(stretches) >= _MIXED * by_chance
    )
