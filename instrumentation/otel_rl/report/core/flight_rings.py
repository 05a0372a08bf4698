"""What the rings of the flight recorder add: who was late in the last steps, and where each rank stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.ranks.postmortem import Postmortem, examine
from otel_rl.ranks.stragglers.run import compare_rings
from otel_rl.store.reader import UnusableInput

if TYPE_CHECKING:
    from otel_rl.ranks.postmortem.dump_comparison import DumpComparison
    from otel_rl.ranks.stragglers.run import RunComparison
    from otel_rl.store.reader.locate import RunSource

#: Seconds without a record after which a rank that others wait for is said to be stuck.
STUCK = 30.0


@dataclass
class FlightRings:
    """Both are None where the run has no rings that can be read."""

    comparison: RunComparison | None = None
    postmortem: Postmortem | None = None

    @property
    def ended_badly(self) -> bool:
        """True where a process is gone, was ended by an exception, or is stuck while others wait for it."""
        found = self.postmortem
        if found is None:
            return False
        return any(one.has_failed for one in found.ranks) or _is_stuck(found) or _is_stuck_by_dumps(found.dumps)


def read(source: RunSource, torch_dumps: Path | None = None) -> FlightRings:
    """Read the rings of the run, which are copies in its folder and in memory of this node, and PyTorch's dumps."""
    rings = Path(settings.current().ring_directory).expanduser()
    try:
        found = examine(source.path, rings, source.run_id, torch_dumps)
    except UnusableInput:
        return FlightRings()
    return FlightRings(compare_rings([one.ring for one in found.ranks]), found)


def _is_stuck(found: Postmortem) -> bool:
    """A healthy job that runs has ranks which wait for each other, too, but not for long."""
    waited_for = (*found.waits.origins, *found.waits.circle)
    return any((found.at - one.ring.wall(one.last)) / 1e9 > STUCK for one in waited_for)


def _is_stuck_by_dumps(found: DumpComparison) -> bool:
    """A program may write dumps while all is well, too."""
    written = max((dump.written for dump in found.dumps), default=0)
    waits = ((written - one.collective.created) / 1e9 for one in found.absences if one.collective.created)
    return any(seconds > STUCK for seconds in waits)
