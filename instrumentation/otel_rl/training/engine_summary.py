"""What the calls of inference engines that ended in a step took, on the span of the step.

An instrumentor of an engine calls :func:`add` when a call ends. Without a step nothing is kept.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _EngineCall(NamedTuple):
    counts: dict[str, int]
    #: Attribute -> sum of the seconds, and how many requests they are of.
    seconds: dict[str, tuple[float, int]]


#: Calls are added up when so many wait; a step may last for hours.
_MAXIMUM_CALLS = 1024
_calls: WeakKeyDictionary[steps.Step, deque[_EngineCall]] = WeakKeyDictionary()


def add(counts: Mapping[str, int], seconds: Mapping[str, Sequence[float]]) -> None:
    """Add a call that has ended: attributes that are sums, and those that are means over its requests."""
    step = steps.where().step
    if step is None:
        return
    steps.contributors.add(_contribute)
    calls = _calls.get(step)
    if calls is None:
        calls = _calls.setdefault(step, deque())
    calls.append(_EngineCall(dict(counts), {name: (sum(values), len(values)) for name, values in seconds.items()}))
    if len(calls) >= _MAXIMUM_CALLS:
        calls.append(_together(calls))


def _together(calls: deque[_EngineCall]) -> _EngineCall:
    """Return the sum of ``calls``, which are taken out; several threads may do it at once."""
    counts: dict[str, int] = {}
    seconds: dict[str, tuple[float, int]] = {}
    while calls:
        try:
            call = calls.popleft()
        except IndexError:  # another thread took the last one
            break
        for name, number in call.counts.items():
            counts[name] = counts.get(name, 0) + number
        for name, (total, number) in call.seconds.items():
            before, requests = seconds.get(name, (0.0, 0))
            seconds[name] = (before + total, requests + number)
    return _EngineCall(counts, seconds)


def _contribute(step: steps.Step) -> None:
    calls = _calls.pop(step, None)
    if calls:
        whole = _together(calls)
        step.engine = whole.counts
        values: dict[str, Any] = {**whole.counts}
        values.update({name: total / number for name, (total, number) in whole.seconds.items()})
        step.describe(values)
