"""How long a call may be open: compared with the calls of its name that have ended; for the first, a stated limit.

Only what the watchdog's thread has taken in counts: calls of this process since it runs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv.attributes import RlCallKindValues as Kind

if TYPE_CHECKING:
    from otel_rl.telemetry.progress import EndedCall

#: Durations that are remembered of a name, and of all calls of a kind: the last ones.
REMEMBERED = 64
#: A hang takes longer than so many usual calls.
USUAL = 10
#: And than so many times the longest one: answers of models and batches differ more than what tools do.
LONGEST = {Kind.MODEL: 3, Kind.ENGINE: 10}
_LONGEST = 2
#: An answer of a model may take so many times the minimum: with 60 s the limit of OpenAI's client, 10 minutes.
ANSWER = 10
#: Of an engine in this process so many calls are known before one may hang: a batch takes as long as it likes.
_BATCHES = 3
#: Names of one process that are told apart; the one that was used longest ago is forgotten.
_NAMES = 512


class CallLimit(NamedTuple):
    """Seconds that a call may be open, and the median of those of its name; None for the first one."""

    seconds: float
    usual: float | None


class CallLimits:
    """Of one process; ``minimum`` is the shortest limit, in s."""

    def __init__(self, minimum: float) -> None:
        self._minimum = minimum
        self._by_name: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._by_kind: dict[str, deque[float]] = {}

    def learn(self, call: EndedCall) -> None:
        """Take in a call that has ended. What failed may have hung, what was left was held: they say nothing."""
        if call.failed or call.was_left:
            return
        key = call.kind, call.name
        seconds = self._by_name.get(key)
        if seconds is None:
            seconds = self._by_name[key] = deque(maxlen=REMEMBERED)
            if len(self._by_name) > _NAMES:
                self._by_name.popitem(last=False)
        self._by_name.move_to_end(key)
        seconds.append(call.seconds)
        self._by_kind.setdefault(call.kind, deque(maxlen=REMEMBERED)).append(call.seconds)

    def of(self, kind: str, name: str) -> CallLimit | None:
        """Return the limit of a call; None where none can be stated."""
        known = self._by_name.get((kind, name))
        if kind == Kind.ENGINE and (known is None or len(known) < _BATCHES):
            return None
        minimum = self._minimum * (ANSWER if kind == Kind.MODEL else 1)
        if known:
            usual = median(known)
            return CallLimit(max(minimum, USUAL * usual, LONGEST.get(kind, _LONGEST) * max(known)), usual)
        others = self._by_kind.get(kind)
        return CallLimit(max(minimum, USUAL * median(others)) if others else minimum, None)
