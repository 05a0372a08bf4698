"""One process: the step, phase and collective that it is in or was in last, and how it ended."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.copies import COPY
from otel_rl.process.lifetime import is_stopped
from otel_rl.ranks.model.collectives import FAILED, OF_COLLECTIVES, collective_of, entered_by
from otel_rl.ranks.model.groups import group_of
from otel_rl.semconv.attributes import RlLauncherValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.flight_recorder.reader import PartOfRun, RingSnapshot
    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.model.collectives import Collective, EnteredCollective, Numbering
    from otel_rl.ranks.model.groups import Group

_CALLS = frozenset({layout.TOOL, layout.MODEL_CALL})
#: Kinds of calls that are named; of more the rest is counted.
_NAMED_CALLS = 4

NO_EXITS: Mapping[Lifetime, Exit] = MappingProxyType({})
#: Reason of an end by Ctrl-C.
INTERRUPTED = "uncaught KeyboardInterrupt"
RUNNING, ENDED, GONE, UNKNOWN = "running", "ended", "gone", "unknown"
#: Seconds without a heartbeat after which a process that runs is said to be silent. Our threads give one each second.
SILENT = 10.0


@dataclass
class RankState:
    """The state of one process, as its ring has it."""

    ring: RingSnapshot
    #: One of :data:`RUNNING`, :data:`ENDED`, :data:`GONE`, :data:`UNKNOWN`.
    state: str
    cause: str
    #: Iteration of the last step (None: there was none), and whether it is open.
    step: int | None
    step_is_open: bool
    #: Whether the step was open when the process ended, or was ended by a failure: it is not completed.
    step_was_open: bool
    #: How its parent saw it end; None: no parent has reported it.
    exit: Exit | None
    #: Open phases, the outermost first; behind them the open tools and model calls, in one text.
    inside: list[str]
    #: The last collective that it entered, and those in which it waits or has failed.
    collective: EnteredCollective | None
    unfinished: list[EnteredCollective] = field(default_factory=list)
    #: Number of the last collective that it entered.
    entered: dict[Numbering, int] = field(default_factory=dict)
    operations: dict[Collective, str] = field(default_factory=dict)
    #: Number of the thread that issued it, where that is not the main one; and threads that issued any.
    threads: dict[Collective, int] = field(default_factory=dict)
    issuers: dict[Numbering, set[int]] = field(default_factory=dict)
    #: Group as it was first made -> the latest of those made again that the ring names.
    generations: dict[Group, int] = field(default_factory=dict)
    #: Where it entered collectives whose number is not known.
    unnumbered: set[Numbering] = field(default_factory=set)
    #: Group -> number of launches that have raised.
    failed_launches: dict[Group, int] = field(default_factory=dict)
    #: Moment of the last record.
    last: int = 0

    @property
    def is_alive(self) -> bool:
        """True where its process is seen to run."""
        return self.state == RUNNING

    @property
    def has_failed(self) -> bool:
        """True where it has no orderly end, as far as can be seen, or an exception or a status other than 0."""
        by_exception = bool(self.ring.end_reason) and self.ring.end_reason != INTERRUPTED
        by_status = self.exit is not None and self.exit.status > 0 and not self.exit.is_of_pool
        return self.state in (GONE, UNKNOWN) or (self.state == ENDED and (by_exception or by_status))

    @property
    def is_old_copy(self) -> bool:
        """True for a copy that was made while its process ran: what that did later is not known."""
        return self.ring.path.name == COPY and not self.ring.ended

    @property
    def seconds_without_progress(self) -> float:
        """Time since the program last began or ended a step, phase, collective, tool or model call; it runs here."""
        return (time.monotonic_ns() - self.last) / 1e9

    @property
    def waited(self) -> PartOfRun | None:
        """The part of the run that it is in, or was in when it ended."""
        return self.ring.part()

    @property
    def label(self) -> str:
        """Its name in sentences."""
        return f"rank {self.ring.rank}" if self.ring.rank is not None else f"process {self.ring.lifetime.pid}"

    @property
    def order(self) -> tuple[bool, int, int]:
        """Ranks first, by number."""
        rank = self.ring.rank
        return rank is None, rank or 0, self.ring.lifetime.pid

    @property
    def reaches_back(self) -> bool:
        """True where the ring still holds the first record: what is not in it did not happen."""
        return not self.ring.has_lost_collectives


def state_of(ring: RingSnapshot, exits: Mapping[Lifetime, Exit] = NO_EXITS) -> RankState:
    """Read what ``ring`` tells, and how the parent of its process saw that end."""
    seen = exits.get(ring.lifetime)
    state, cause = _ending(ring, seen)
    unfinished = _unfinished(ring)
    iteration, begun = ring.last_step
    rank_state = RankState(
        ring=ring,
        state=state,
        cause=cause,
        exit=seen,
        step=iteration if begun else None,
        step_is_open=any(event.kind == layout.STEP for event in ring.open),
        step_was_open=_was_open(ring),
        inside=_inside(ring),
        collective=unfinished[-1] if unfinished else _latest_collective(ring),
        unfinished=unfinished,
        failed_launches={group_of(text): number for text, number in ring.failed_launches.items()},
        last=max(
            (event.moment for event in (*ring.records[-1:], *ring.open[-1:])), default=ring.made or ring.clocks[0]
        ),
    )
    _enter(rank_state)
    return rank_state


def _was_open(ring: RingSnapshot) -> bool:
    """Return whether the last step was not completed."""
    latest = next((event for event in reversed(ring.records) if event.kind == layout.STEP), None)
    is_failed = latest is not None and latest.what == layout.FAILED and latest.argument == ring.last_step[0]
    return is_failed or any(event.kind == layout.STEP for event in ring.open)


def _inside(ring: RingSnapshot) -> list[str]:
    """Return the phases and parts of the run, then the calls: a ring does not say which of them are in one rollout."""
    phases = [
        event.name if event.kind == layout.PHASE else event.part_words
        for event in ring.open
        if event.kind in (layout.PHASE, layout.PART)
    ]
    calls = Counter(f"{layout.KINDS[event.kind]} {event.name}" for event in ring.open if event.kind in _CALLS)
    named = calls.most_common(_NAMED_CALLS)
    words = [f"{number} x {call}" if number > 1 else call for call, number in named]
    if others := sum(calls.values()) - sum(number for _, number in named):
        words.append(f"{others} more")
    return [*phases, ", ".join(words)] if calls else phases


def _ending(ring: RingSnapshot, seen: Exit | None) -> tuple[str, str]:
    if ring.ended:
        # The exception says more than the status that it leads to.
        by_parent = seen is not None and seen.status != 0 and (seen.status < 0 or not ring.end_reason)
        if seen is not None and by_parent:
            return ENDED, f"{ring.end_reason}; {seen.words}" if ring.end_reason else seen.words
        return ENDED, ring.end_reason or "ended in order"
    if seen is not None:
        return GONE, seen.words
    alive = ring.is_alive()
    if not alive and ring.launcher == RlLauncherValues.RAY:
        return ENDED, "ended; Ray lets its workers leave no record of it"
    if alive is None:
        return UNKNOWN, "no end recorded; whether it runs cannot be seen from here"
    return (
        (RUNNING, f"running{_silence(ring)}") if alive else (GONE, "gone without an orderly end: killed, or os._exit")
    )


def _silence(ring: RingSnapshot) -> str:
    if not ring.heartbeat and not ring.last_step[1]:
        # Before the first step no thread of ours needs to run.
        return ""
    silent = (time.monotonic_ns() - (ring.heartbeat or ring.clocks[0])) / 1e9
    if silent < SILENT:
        return ""
    why = "it is stopped by a signal (SIGSTOP)" if is_stopped(ring.lifetime) else "it may hold the GIL"
    return f"; no heartbeat for {silent:.0f} s: {why}"


def _enter(state: RankState) -> None:
    """Add what it entered."""
    for event in (*state.ring.records, *state.ring.open):
        if event.kind not in OF_COLLECTIVES:
            continue
        collective = collective_of(event)
        group, numbering = collective.group, collective.numbering
        state.generations[group.first] = max(state.generations.get(group.first, 0), group.generation)
        if collective.number is None:
            continue
        if not collective.number:
            state.unnumbered.add(numbering)
            continue
        state.entered[numbering] = max(state.entered.get(numbering, 0), collective.number)
        state.operations[collective] = event.name
        state.issuers.setdefault(numbering, set()).add(event.thread)
        if event.thread:
            state.threads[collective] = event.thread


def _unfinished(ring: RingSnapshot) -> list[EnteredCollective]:
    """Return the open collectives, and the last one where it has failed: the rank had waited for it in vain."""
    unfinished = [entered_by(event) for event in ring.open if event.kind in OF_COLLECTIVES]
    latest = _latest_collective(ring)
    if latest is not None and latest.outcome == FAILED:
        unfinished.append(latest)
    return unfinished


def _latest_collective(ring: RingSnapshot) -> EnteredCollective | None:
    """Return the one of the newest record of those that are over."""
    latest = next((event for event in reversed(ring.records) if event.kind in OF_COLLECTIVES), None)
    return entered_by(latest) if latest is not None else None
