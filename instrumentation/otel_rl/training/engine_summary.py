"""What the calls of inference engines that ended in a step took, on the span of the step.

An instrumentor of an engine calls :func:`add` when a call ends. Without a step nothing is kept. The span has the mean
of each time, and its median, 95th percentile and maximum under ``rl.engine.median``, ``.p95`` and ``.max``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.semconv import attributes
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Calls are added up when so many wait; a step may last for hours.
_MAXIMUM_CALLS = 1024
#: Values from which a median is taken. Of more every second one is kept, then every fourth, and so on.
_MOST_VALUES = 4096
_NAMESPACE = attributes.RL_ENGINE_REQUESTS.removesuffix("requests")
_QUANTILES = {attributes.RL_ENGINE_MEDIAN: 0.5, attributes.RL_ENGINE_P95: 0.95}


class _Values:
    """Values of one time, of the requests that have it."""

    __slots__ = ("_every", "kept", "largest", "number", "total")

    def __init__(self) -> None:
        self.number, self.total, self.largest = 0, 0.0, float("-inf")
        self.kept: list[float] = []
        self._every = 1

    def add(self, values: Iterable[float]) -> None:
        """Add the values of a call."""
        for value in values:
            if self.number % self._every == 0:
                self.kept.append(value)
            self.number += 1
            self.total += value
            self.largest = max(self.largest, value)
        self._thin_out()

    def add_all(self, other: _Values) -> None:
        """Add those of many calls."""
        while self._every < other._every:
            self._halve()
        self.kept += other.kept[:: self._every // other._every]
        self.number += other.number
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        self._thin_out()

    def _thin_out(self) -> None:
        while len(self.kept) > _MOST_VALUES:
            self._halve()

    def _halve(self) -> None:
        del self.kept[1::2]
        self._every *= 2

    def attributes(self, name: str) -> dict[str, float]:
        """Return the mean, and how the values are spread."""
        values = {name: self.total / self.number}
        if name.startswith(_NAMESPACE):
            key, ordered = name.removeprefix(_NAMESPACE), sorted(self.kept)
            for statistic, share in _QUANTILES.items():
                values[f"{statistic}.{key}"] = _quantile(ordered, share)
            values[f"{attributes.RL_ENGINE_MAX}.{key}"] = self.largest
        return values


class _EngineCall(NamedTuple):
    counts: dict[str, int]
    times: Mapping[str, Sequence[float]]


class _EngineCalls(NamedTuple):
    counts: dict[str, int]
    times: dict[str, _Values]


_calls: WeakKeyDictionary[steps.Step, deque[_EngineCall | _EngineCalls]] = WeakKeyDictionary()


def add(counts: Mapping[str, int], times: Mapping[str, Sequence[float]]) -> None:
    """Add a call that has ended: attributes that are sums, and times with the values of its requests."""
    step = steps.where().step
    if step is None:
        return
    steps.contributors.add(_contribute)
    calls = _calls.get(step)
    if calls is None:
        calls = _calls.setdefault(step, deque())
    calls.append(_EngineCall(dict(counts), times))
    if len(calls) >= _MAXIMUM_CALLS:
        calls.append(_together(calls))


def _together(calls: deque[_EngineCall | _EngineCalls]) -> _EngineCalls:
    """Return the sum of ``calls``, which are taken out; several threads may do it at once."""
    whole = _EngineCalls({}, {})
    while calls:
        try:
            call = calls.popleft()
        except IndexError:  # another thread took the last one
            break
        for name, number in call.counts.items():
            whole.counts[name] = whole.counts.get(name, 0) + number
        for name, values in call.times.items():
            together = whole.times.setdefault(name, _Values())
            if isinstance(values, _Values):
                together.add_all(values)
            else:
                together.add(values)
    return whole


def _quantile(ordered: list[float], share: float) -> float:
    """Return a quantile, between two values by linear interpolation."""
    place, rest = divmod((len(ordered) - 1) * share, 1)
    below = ordered[int(place)]
    return below + rest * (ordered[min(int(place) + 1, len(ordered) - 1)] - below)


def _contribute(step: steps.Step) -> None:
    calls = _calls.pop(step, None)
    if calls:
        whole = _together(calls)
        step.engine = whole.counts
        values: dict[str, Any] = {**whole.counts}
        for name, measured in whole.times.items():
            values.update(measured.attributes(name))
        step.describe(values)
