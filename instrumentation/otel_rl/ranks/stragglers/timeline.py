"""The steps of one rank: when it launched its collectives, when it waited, and which phases it was in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout
from otel_rl.ranks.model.collectives import Collective, Wait, collective_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.flight_recorder.reader import Event


class StepKey(NamedTuple):
    """A step as all ranks know it."""

    loop: str
    iteration: int
    #: Of the loop, among those without a name.
    number: int = 0


class TimeSpan(NamedTuple):
    """A stretch of time, with its name; moments in ns of the node's monotonic clock."""

    name: str
    began: int
    ended: int


@dataclass
class RankStep:
    """One step of one rank, from the end of its previous step on; moments in ns of one clock."""

    rank: int
    began: int
    ended: int
    #: When the rank entered each collective.
    launches: dict[Collective, int] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    operations: dict[Collective, str] = field(default_factory=dict)
    phases: list[TimeSpan] = field(default_factory=list)
    #: End of the last wait before the step: what the rank did from then on makes it late at the first meeting of this
    #: one. None: there was none, or it is not known.
    waited_before: int | None = None
    #: Its collectives are all known.
    is_whole: bool = True

    @property
    def length(self) -> int:
        """How long the step took, in ns."""
        return self.ended - self.began

    @property
    def since(self) -> int:
        """From when on its work counts."""
        return self.began if self.waited_before is None else self.waited_before


def steps(
    rank: int, events: Iterable[Event], offset: int = 0, since: int = 0, all_since: int = 0
) -> dict[StepKey, RankStep]:
    """Return the steps of ``rank`` that are over and whose predecessor is known; of a repeated one the last.

    Args:
        rank: The rank that wrote ``events``.
        events: Operations that are over, in the order of their ends.
        offset: Added to each moment, in ns; brings the moments of several nodes to one clock.
        since: Ns, before ``offset`` is added; steps whose predecessor ended earlier are left out.
        all_since: Ns, before ``offset`` is added; collectives that began earlier may be missing.
    """
    over = [event for event in events if event.what != layout.BEGIN]
    windows = _windows(rank, over, offset, since)
    if windows:
        _fill(list(windows.values()), over, offset, all_since + offset)
    return windows


def step_key(step: Event) -> StepKey:
    """Return which step ``step`` is."""
    return StepKey(step.name, step.argument, step.loop)


def waits(events: Iterable[Event]) -> tuple[list[Wait], dict[Collective, str]]:
    """Return all waits that are over, and the operation of each collective."""
    collective_waits: list[Wait] = []
    operations: dict[Collective, str] = {}
    for event in events:
        collective = _collective(event)
        if collective is None:
            continue
        if event.kind == layout.WAIT and event.what != layout.BEGIN:
            collective_waits.append(Wait(collective, event.began, event.moment))
        elif event.kind == layout.COLLECTIVE:
            operations.setdefault(collective, event.name)
    return collective_waits, operations


def _windows(rank: int, events: Sequence[Event], offset: int, since: int) -> dict[StepKey, RankStep]:
    windows: dict[StepKey, RankStep] = {}
    previous: dict[tuple[str, int], int] = {}
    for event in events:
        if event.kind == layout.STEP:
            key, loop = step_key(event), (event.name, event.loop)
            before = previous.get(loop)
            if before is not None and before >= since:
                windows.pop(key, None)
                windows[key] = RankStep(rank, before + offset, event.moment + offset)
            previous[loop] = event.moment
    return windows


def _fill(windows: Sequence[RankStep], events: Sequence[Event], offset: int, all_since: int) -> None:
    """Give each operation to every step during which it began: loops may have steps open at once.

    What began between the last wait before the step and its begin is given to it too.
    """
    began = sorted((event for event in events if event.kind != layout.STEP), key=lambda event: event.began)
    moments = [event.began + offset for event in began]
    phases = [event for event in began if event.kind == layout.PHASE]
    ends = [event.moment + offset for event in phases]
    waited = [event.moment + offset for event in events if event.kind == layout.WAIT and _collective(event) is not None]
    for window in windows:
        before = bisect_right(waited, window.began)
        window.waited_before = waited[before - 1] if before else None
        window.is_whole = window.since >= all_since
        for event in began[bisect_right(moments, window.since) : bisect_left(moments, window.ended)]:
            _add(window, event, offset)
        window.phases = [
            TimeSpan(event.name, event.began + offset, ended)
            for event, ended in zip(phases, ends, strict=True)
            if ended > window.since and event.began + offset < window.ended
        ]


def _add(step: RankStep, event: Event, offset: int) -> None:
    collective = _collective(event)
    if collective is None:
        return
    if event.kind == layout.COLLECTIVE:
        step.launches.setdefault(collective, event.began + offset)
        step.operations.setdefault(collective, event.name)
    elif event.kind == layout.WAIT:
        step.waits.append(Wait(collective, event.began + offset, event.moment + offset))


def _collective(event: Event) -> Collective | None:
    """Return the collective of the event; None without a number and a group that the ranks share."""
    return collective_of(event) if event.sequence and event.group != layout.OTHER_TEXT else None
