"""What the rings of the flight recorder add: who was late in the last steps, and where each rank stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.ranks.postmortem import Postmortem, examine
from otel_rl.ranks.postmortem.rings import exits_of
from otel_rl.ranks.stragglers.run import compare_rings
from otel_rl.store.reader import UnusableInput

if TYPE_CHECKING:
    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.postmortem.dump_comparison import DumpComparison
    from otel_rl.ranks.stragglers.run import RunComparison
    from otel_rl.store.reader.locate import RunSource

#: Seconds without a record after which a rank that others wait for is said to be stuck.
STUCK = 30.0


@dataclass
class FlightRings:
    """``comparison`` and ``postmortem`` are None where the run has no rings that can be read."""

    comparison: RunComparison | None = None
    postmortem: Postmortem | None = None
    #: How parents saw processes of the run end, with rings or without.
    exits: list[Exit] = field(default_factory=list)
    #: Calls that had been open for long, by process, with rings or without.
    waiting: dict[Lifetime, WaitingCalls] = field(default_factory=dict)

    @property
    def ended_badly(self) -> bool:
        """True where a process is gone, was ended by an exception, or is stuck while others wait for it."""
        postmortem = self.postmortem
        if postmortem is None:
            return False
        return (
            any(rank.has_failed for rank in postmortem.ranks)
            or _is_stuck(postmortem)
            or _is_stuck_by_dumps(postmortem.dumps)
        )


def read(source: RunSource, torch_dumps: Path | None = None) -> FlightRings:
    """Read the rings of the run, which are copies in its folder and in memory of this node, and PyTorch's dumps."""
    rings = Path(settings.current().ring_directory).expanduser()
    exits = [end for end in exits_of(source.path, rings).values() if source.run_id in (None, end.run_id)]
    try:
        postmortem = examine(source.path, rings, source.run_id, torch_dumps)
    except UnusableInput:
        return FlightRings(exits=exits)
    waiting = {calls.lifetime: calls for calls in postmortem.waiting}
    if not postmortem.ranks and not postmortem.dumps.dumps:
        return FlightRings(exits=exits, waiting=waiting)
    return FlightRings(compare_rings([rank.ring for rank in postmortem.ranks]), postmortem, exits, waiting)


def _is_stuck(postmortem: Postmortem) -> bool:
    """Return whether ranks have waited for long; in a healthy job they wait for each other, too."""
    waited_for = (*postmortem.waits.origins, *postmortem.waits.circle)
    if any((postmortem.at - rank.ring.wall(rank.last)) / 1e9 > STUCK for rank in waited_for):
        return True
    # The record of a rank's end is newer than what it did before: the wait of the others has lasted as long.
    begun = [
        wait.waiting.ring.wall(wait.collective.moment) for wait in postmortem.waits.waits if wait.missing.ring.ended
    ]
    return any((postmortem.at - moment) / 1e9 > STUCK for moment in begun)


def _is_stuck_by_dumps(comparison: DumpComparison) -> bool:
    """Return whether a collective in the dumps is old; a program may write dumps while all is well, too."""
    written = max((dump.written for dump in comparison.dumps), default=0)
    waits = (
        (written - absence.collective.created) / 1e9 for absence in comparison.absences if absence.collective.created
    )
    return any(seconds > STUCK for seconds in waits)
