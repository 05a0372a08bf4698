"""What the rings of the flight recorder add: who was late in the last steps, and where each rank stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import settings
from otel_rl.flight_recorder import layout
from otel_rl.process import launch
from otel_rl.ranks.model.collectives import FAILED, OF_COLLECTIVES
from otel_rl.ranks.postmortem import Postmortem, examine
from otel_rl.ranks.postmortem.rings import exits_of
from otel_rl.ranks.stragglers.run import compare_rings
from otel_rl.ranks.watchdog.step_times import FIRST_STEPS, MAY_BE_LONG
from otel_rl.store.reader import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from otel_rl.flight_recorder.reader import RingSnapshot
    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.postmortem.dump_comparison import DumpComparison
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.ranks.postmortem.waits import RankWait
    from otel_rl.ranks.stragglers.run import RunComparison
    from otel_rl.store.reader.locate import RunSource

#: Seconds for which others wait before a rank is said to be stuck, where too few steps tell what is usual.
STUCK = 30.0
#: The shortest wait that is unusual, in s, and how many times the longest wait of the job before.
_SHORTEST, _LONGEST = 10.0, 3
_NANOSECONDS = 1e9


@dataclass
class FlightRings:
    """``comparison`` and ``postmortem`` are None where the run has no rings that can be read."""

    comparison: RunComparison | None = None
    postmortem: Postmortem | None = None
    #: How parents saw processes of the run end, with rings or without.
    exits: list[Exit] = field(default_factory=list)
    #: Calls that had been open for long, by process, with rings or without.
    waiting: dict[Lifetime, WaitingCalls] = field(default_factory=dict)
    #: True where they are of an attempt that a later one follows, which has none yet.
    are_superseded: bool = False

    @property
    def ended_badly(self) -> bool:
        """True where a process is gone, was ended by an exception, or is stuck while others wait for it."""
        postmortem = self.postmortem
        if postmortem is None or self.are_superseded:
            return False
        return (
            any(rank.has_failed for rank in postmortem.ranks)
            or _is_stuck(postmortem)
            or _is_stuck_by_dumps(postmortem.dumps)
        )

    @property
    def longest_wait(self) -> LongWait | None:
        """The longest wait for a rank that is longer than what is usual, where there was one; it may be a hang."""
        usual = None if self.postmortem is None or self.are_superseded else _longest_usual(self.postmortem)
        if self.postmortem is None or usual is None:
            return None
        waits = [LongWait(wait, _seconds(self.postmortem, wait)) for wait in self.postmortem.waits.waits]
        unusual = [wait for wait in waits if wait.seconds > max(_SHORTEST, usual)]
        return max(unusual, key=lambda wait: wait.seconds, default=None)


class LongWait(NamedTuple):
    """For how many seconds one rank has waited for another one."""

    wait: RankWait
    seconds: float


def read(
    source: RunSource, torch_dumps: Path | None = None, superseded: Collection[tuple[int, ...]] = ()
) -> FlightRings:
    """Read the rings of the run, which are copies in its folder and in memory of this node, and PyTorch's dumps.

    Those of ``superseded`` attempts say nothing of how the run ended.
    """
    rings = Path(settings.current().ring_directory).expanduser()
    exits = [end for end in exits_of(source.path, rings).values() if source.run_id in (None, end.run_id)]
    try:
        postmortem = examine(source.path, rings, source.run_id, torch_dumps)
    except UnusableInput:
        return FlightRings(exits=exits)
    waiting = {calls.lifetime: calls for calls in postmortem.waiting}
    if not postmortem.ranks and not postmortem.dumps.dumps:
        return FlightRings(exits=exits, waiting=waiting)
    of_ranks = [rank.ring for rank in postmortem.ranks]
    of_earlier = bool(of_ranks) and all(launch.parse_attempt(ring.attempt) in superseded for ring in of_ranks)
    return FlightRings(None if of_earlier else compare_rings(of_ranks), postmortem, exits, waiting, of_earlier)


def _is_stuck(postmortem: Postmortem) -> bool:
    """Return whether ranks have waited for unusually long; in a healthy job they wait for each other, too."""
    usual = _longest_usual(postmortem)
    # A job that runs may still go on: the first evaluation of one with short steps is no hang.
    least = STUCK if postmortem.is_running else _SHORTEST
    return any(_seconds(postmortem, wait) > max(least, _limit(wait.missing, usual)) for wait in postmortem.waits.waits)


def _seconds(postmortem: Postmortem, wait: RankWait) -> float:
    """Return for how long one rank has waited while the other one made no records."""
    moments = [wait.waiting.ring.wall(wait.collective.moment)]
    # The record of a rank's end is newer than what it did before: the wait of the others has lasted as long.
    if not wait.missing.ring.ended:
        moments.append(wait.missing.ring.wall(wait.missing.last))
    if wait.collective.outcome == FAILED:
        # Its moment is that of the failure.
        moments = moments[1:] or moments
    return (postmortem.at - max(moments)) / _NANOSECONDS


def _limit(missing: RankState, usual: float | None) -> float:
    """Return the seconds for which a healthy job may wait for the rank."""
    if usual is None:
        return STUCK
    phases = {event.name for event in missing.ring.open if event.kind == layout.PHASE}
    # Between two steps a rank may evaluate alone, save or load something that nobody marks.
    may_be_long = bool(phases & MAY_BE_LONG) or not missing.step_was_open
    return max(STUCK if may_be_long else _SHORTEST, usual)


def _longest_usual(postmortem: Postmortem) -> float | None:
    """Return the seconds that no wait of this job has exceeded so far: its longest step, some of its longest waits.

    None where too few steps tell.
    """
    rings = [state.ring for state in postmortem.ranks if state.step is not None]
    lengths = [list(_lengths(ring, frozenset({layout.STEP}))) for ring in rings]
    if not lengths or min(map(len, lengths)) < FIRST_STEPS:
        return None
    after_first = [ring_lengths[0].ended for ring_lengths in lengths]
    waits = [
        _LONGEST * one.seconds
        for ring, since in zip(rings, after_first, strict=True)
        for one in _lengths(ring, OF_COLLECTIVES)
        if one.began >= since
    ]
    steps = [one.seconds for ring_lengths in lengths for one in ring_lengths[1:]]
    # The first step loads and compiles; that it took long says less.
    first = min(STUCK, *(ring_lengths[0].seconds for ring_lengths in lengths))
    return max(first, *steps, *waits)


class _Length(NamedTuple):
    began: int
    ended: int

    @property
    def seconds(self) -> float:
        return (self.ended - self.began) / _NANOSECONDS


def _lengths(ring: RingSnapshot, kinds: Collection[int]) -> Iterator[_Length]:
    """Yield what is over, in the order of the ends."""
    for event in ring.records:
        if event.kind in kinds and event.what == layout.DONE:
            yield _Length(event.began, event.moment)


def _is_stuck_by_dumps(comparison: DumpComparison) -> bool:
    """Return whether a collective in the dumps is old; a program may write dumps while all is well, too."""
    written = max((dump.written for dump in comparison.dumps), default=0)
    waits = (
        (written - absence.collective.created) / 1e9 for absence in comparison.absences if absence.collective.created
    )
    return any(seconds > STUCK for seconds in waits)
