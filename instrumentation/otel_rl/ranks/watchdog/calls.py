"""Calls that do not return: of tools, models and services, in rollouts or while a step is open.

A call is told while it hangs, the first of its name too. Of all calls of one kind and name the one is told that is open
for the longest; once that has ended, the next one, so that each event and its end are about one call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.watchdog import call_places, call_reports, stacks
from otel_rl.ranks.watchdog.call_limits import CallLimits
from otel_rl.ranks.watchdog.call_list import CallList, LongCall
from otel_rl.semconv.attributes import RlCallEndingValues as Ending
from otel_rl.semconv.attributes import RlCallKindValues as Kind
from otel_rl.telemetry import progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.ranks.watchdog.call_limits import CallLimit
    from otel_rl.telemetry.progress import CallBegin, CallState, EndedCall, OpenCall

#: Seconds from which on an open call is listed for a postmortem, where the minimum is not shorter.
LISTED = 10.0
#: Most findings at once, and pauses of the process that are remembered.
_MOST, _PAUSES = 64, 64


class CallsOverLimit(NamedTuple):
    """Calls of one kind and name that are longer than their limit, the longest first."""

    limit: CallLimit
    calls: list[LongCall]


@dataclass
class HangingCall:
    """The call that was reported of its kind and name."""

    identity: int
    begin: CallBegin
    state: CallState
    #: Moment of its last sign.
    since: float
    #: Its end, once that is seen.
    ended: EndedCall | None = None


class CallWatch:
    """Of one process; for the watchdog's thread. ``minimum`` is the shortest limit, in s."""

    def __init__(self, minimum: float) -> None:
        self._minimum = minimum
        self._listed = min(LISTED, minimum / 4)
        self._limits = CallLimits(minimum)
        self._hanging: dict[tuple[str, str], HangingCall] = {}
        #: Of each of these names the moment of the last line that said that a call of it hangs.
        self._lines: dict[tuple[str, str], float] = {}
        #: Moments until which the process was stopped, and the seconds of that.
        self._pauses: deque[tuple[float, float]] = deque(maxlen=_PAUSES)
        self._list = CallList()

    def look(self, now: float, paused: float, *, in_step: bool, step_threads: Collection[int] = ()) -> None:
        """Compare the calls that are open ``now``; ``paused`` are the seconds that the process has lost since.

        Those outside of rollouts only ``in_step``: while one is open, in no phase that may be long. The open steps have
        begun in ``step_threads``.
        """
        if paused > 0:
            self._pauses.append((now, paused))
        for ended in progress.ended_calls():
            self._limits.learn(ended)
            told = self._hanging.get((ended.kind, ended.name))
            if told is not None and told.identity == ended.identity:
                told.ended = ended
        long = self._long(now)
        over = self._over(long, in_step=in_step)
        for key, told in list(self._hanging.items()):
            how = None if key in over and _still_hangs(told, over[key]) else self._ending(told, long)
            if how is not None:
                del self._hanging[key]
                seconds = told.ended.seconds if told.ended else now - told.begin.moment
                call_reports.over(told.state, seconds, how, has_line=key not in over or self._may_write(key, now))
        new = [key for key in over if key not in self._hanging][: _MOST - len(self._hanging)]
        # Where somebody debugs, compiles or loads, calls wait for that.
        if new and not stacks.work_is_long():
            for key in new:
                self._report(over[key], now)
        self._lines = {key: moment for key, moment in self._lines.items() if key in self._hanging or key in over}
        hanging = {id(one.call) for key in self._hanging if key in over for one in over[key].calls}
        self._list.write(
            long, hanging | {told.identity for key, told in self._hanging.items() if key not in over}, step_threads
        )

    def hanging(self) -> str | None:
        """Return the call that was told first of those that hang, for a sentence."""
        told = next(iter(self._hanging.values()), None)
        if told is None:
            return None
        rollout = call_reports.rollout_of(told.state.trajectory)
        return f"{call_reports.words_of(told.state)}{f' of rollout {rollout}' if rollout else ''}"

    def told_in(self, threads: Collection[int]) -> bool:
        """Return whether that call began in one of ``threads``."""
        told = next(iter(self._hanging.values()), None)
        return told is not None and told.begin.thread in threads

    # -- which ---------------------------------------------------------------------------------------------------------

    def _long(self, now: float) -> list[LongCall]:
        """Return the calls that are to be listed, the longest first."""
        found = []
        for call in progress.open_calls(now - self._listed):
            begin, state = call.begin, call.state()
            if begin is None or state is None:
                continue
            if state.is_held:
                # It is waited for since the program reads on, not since its last chunk.
                call.last_inside = now
                continue
            since = _last_sign(call, begin, state)
            seconds = now - since - sum(paused for moment, paused in self._pauses if moment > since)
            if seconds >= self._listed:
                found.append(LongCall(call, begin, state, seconds))
        return sorted(found, key=lambda long: -long.seconds)

    def _over(self, long: list[LongCall], *, in_step: bool) -> dict[tuple[str, str], CallsOverLimit]:
        """Return what is longer than its limit, by kind and name; a call around another one only waits for that."""
        candidates = [
            one
            for one in long
            if one.seconds >= self._minimum
            and one.state.kind != Kind.REQUEST
            and (in_step or one.state.trajectory is not None)
        ]
        # Once for each name: thousands of its calls may be open.
        limits = {key: self._limits.of(*key) for key in {(one.state.kind, one.state.name) for one in candidates}}
        over: dict[tuple[str, str], CallsOverLimit] = {}
        around = _around(long) if candidates else set()
        for one in candidates:
            key = one.state.kind, one.state.name
            limit = limits[key]
            if limit is not None and one.seconds >= limit.seconds and id(one.call) not in around:
                over.setdefault(key, CallsOverLimit(limit, [])).calls.append(one)
        return over

    # -- what is said --------------------------------------------------------------------------------------------------

    def _may_write(self, key: tuple[str, str], now: float) -> bool:
        """Return whether a line about one more call of the name may follow: those of many may end one by one."""
        return key not in self._lines or now - self._lines[key] >= self._minimum

    def _report(self, over: CallsOverLimit, now: float) -> None:
        longest = over.calls[0]
        state = longest.state
        key = state.kind, state.name
        has_line = self._may_write(key, now)
        if has_line:
            self._lines[key] = now
        self._hanging[key] = HangingCall(
            id(longest.call), longest.begin, state, _last_sign(longest.call, longest.begin, state)
        )
        tool = longest.begin.tool.state() if longest.begin.tool is not None else None
        place = call_places.find_place(longest.begin)
        call_reports.hang(
            call_reports.CallHang(
                state, longest.seconds, over.limit, len(over.calls), place, tool.name if tool else None
            ),
            has_line=has_line,
        )

    def _ending(self, told: HangingCall, long: list[LongCall]) -> str | None:
        """Return how what was told has ended; None while it hangs, as between two steps."""
        if told.ended is not None:
            returned = Ending.DROPPED if told.ended.was_left else Ending.RETURNED
            return Ending.FAILED if told.ended.failed else returned
        one = next((one for one in long if one.begin is told.begin), None)
        if one is None:
            is_open = any(call.begin is told.begin and call.state() is not None for call in progress.open_calls())
            return Ending.WENT_ON if is_open else Ending.DROPPED
        if _last_sign(one.call, one.begin, one.state) > told.since or id(one.call) in _around(long):
            return Ending.WENT_ON
        limit = self._limits.of(one.state.kind, one.state.name)
        return Ending.USUAL if limit is not None and one.seconds < limit.seconds else None


def _still_hangs(told: HangingCall, over: CallsOverLimit) -> bool:
    """Return whether ``told`` is among those over the limit, and has given no sign since."""
    found = next((one for one in over.calls if one.begin is told.begin), None)
    return found is not None and told.ended is None and _last_sign(found.call, found.begin, found.state) <= told.since


def _last_sign(call: OpenCall, begin: CallBegin, state: CallState) -> float:
    return max(begin.moment, state.last_sign, call.last_inside)


def _around(long: list[LongCall]) -> set[int]:
    """Return ids of calls that have another one open inside of them."""
    around: set[int] = set()
    for call in progress.open_calls():
        tool = call.begin.tool if call.begin is not None else None
        state = call.state() if tool is not None else None
        if state is None or state.is_held:
            # An answer that is there, whole or in part: nobody waits for it.
            continue
        while tool is not None and id(tool) not in around:
            around.add(id(tool))
            tool = tool.begin.tool if tool.begin is not None else None
    parents = {one.state.parent for one in long} - {0}
    around |= {id(one.call) for one in long if call_reports.span_ids(one.state.span)[1] in parents}
    return around
