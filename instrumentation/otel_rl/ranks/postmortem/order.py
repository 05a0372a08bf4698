"""Which of two processes ended first, where heartbeats, records of the ring or exits show it.

Moments of last exports do not, nor do last signs that lie closer together than heartbeats: their order is chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.model.collectives import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.process.exit_records import Exit
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.ranks.postmortem.waits import RankWait

#: Nanoseconds after its last sign within which a process that gave heartbeats has ended: three of them.
HEARTBEATS = 3_000_000_000
_SIGTERM = "SIGTERM"


class EndBounds(NamedTuple):
    """Wall clocks (ns) between which a process has ended; ``latest`` None: that is not known."""

    earliest: int
    latest: int | None

    def is_before(self, other: EndBounds) -> bool:
        """Return whether this end is known to be the earlier one."""
        return self.latest is not None and self.latest < other.earliest


def bounds(state: RankState) -> EndBounds:
    """Return when the process of ``state`` has ended, as far as its ring and its parent tell."""
    ring, last = state.ring, state.ring.last_sign
    if state.exit is not None and not ring.ended:
        return of_exit(last, state.exit)
    if ring.ended:
        moment = ring.wall(ring.ended)
        # Who is ended with others takes its own time for that.
        return EndBounds(moment, moment + (HEARTBEATS if _is_asked_for(state) else 0))
    # A copy was made while the process ran; one that runs has no end.
    is_shown = bool(ring.heartbeat) and not state.is_old_copy and not state.is_alive
    return EndBounds(last, last + HEARTBEATS if is_shown else None)


def of_exit(last: int, seen: Exit) -> EndBounds:
    """Return when a process has ended that gave its ``last`` sign (ns), and whose parent has ``seen`` its end."""
    return EndBounds(last, max(last, seen.at_unix_nano) + (HEARTBEATS if seen.signal == _SIGTERM else 0))


def _is_asked_for(state: RankState) -> bool:
    return state.exit is not None and state.exit.signal == _SIGTERM


def stopped_first(state: RankState, waits: Sequence[RankWait]) -> bool | None:
    """Return whether ``state`` ended before all who wait for it; None where the order is not known."""
    shown = [_is_first(state, wait) for wait in waits]
    if False in shown:
        return False
    return None if None in shown else True


def lived_on(state: RankState, waits: Sequence[RankWait]) -> bool:
    """Return whether ``state`` gave signs of life for long while others waited for it: it was stuck, or late."""
    return any(state.ring.last_sign - wait.waiting.ring.wall(wait.collective.moment) > HEARTBEATS for wait in waits)


def worked_on(state: RankState, waits: Sequence[RankWait]) -> bool:
    """Return whether ``state`` made records while others waited for it, for longer than it made none before its end."""
    ring = state.ring
    # What an exception closes on its way out is no work.
    until = ring.ended - HEARTBEATS if ring.ended else None
    moments = (event.moment for event in (*ring.records, *ring.open))
    last = ring.wall(max((one for one in moments if until is None or one <= until), default=ring.clocks[0]))
    since = min(wait.waiting.ring.wall(wait.collective.moment) for wait in waits)
    return last - since > ring.last_sign - last


def _is_first(state: RankState, wait: RankWait) -> bool | None:
    other, own, theirs = wait.waiting, bounds(state), bounds(wait.waiting)
    if other.is_alive or own.is_before(theirs):
        return True
    if theirs.is_before(own):
        return False
    failed = wait.collective.outcome == FAILED and own.earliest < other.ring.wall(wait.collective.moment)
    is_shown = (failed and not state.ring.ended) or _is_swept_up(state, other)
    return True if is_shown and _may_have_ended_before(state, other) else None


def _is_swept_up(state: RankState, other: RankState) -> bool:
    """Return whether the launcher ended ``other`` with SIGTERM, and ``state`` had ended in another way."""
    return _is_asked_for(other) and state.exit is not None and not _is_asked_for(state)


def _may_have_ended_before(state: RankState, other: RankState) -> bool:
    """Return whether the end of ``state`` was seen, if it was, while ``other`` gave signs.

    Else ``state`` may be the one that hung: a launcher sends SIGTERM to all, and SIGKILL later to who did not end.
    """
    return state.exit is None or state.exit.at_unix_nano - other.ring.last_sign <= HEARTBEATS
