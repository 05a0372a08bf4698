"""What the rings of the flight recorder add: who was late in the last steps, and where each rank stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl import settings
from otel_rl.offline.postmortem import Postmortem, examine, ranks
from otel_rl.offline.reader import UnusableInput
from otel_rl.stragglers.run import compare_rings

if TYPE_CHECKING:
    from otel_rl.offline.postmortem.ranks import RankState
    from otel_rl.offline.reader.locate import Source
    from otel_rl.stragglers.run import RunComparison

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
        return found is not None and (any(map(_has_failed, found.ranks)) or _is_stuck(found))


def read(source: Source) -> FlightRings:
    """Read the rings of the run: copies in its folder, and those in memory of this node."""
    try:
        found = examine(source.path, Path(settings.current().ring_directory).expanduser(), source.run_id)
    except UnusableInput:
        return FlightRings()
    return FlightRings(compare_rings([one.ring for one in found.ranks]), found)


def _has_failed(one: RankState) -> bool:
    return one.state in (ranks.GONE, ranks.UNKNOWN) or (one.state == ranks.ENDED and bool(one.ring.end_reason))


def _is_stuck(found: Postmortem) -> bool:
    """A healthy job that runs has ranks which wait for each other, too, but not for long."""
    waited_for = (*found.waits.origins, *found.waits.circle)
    return any((found.at - one.ring.wall(one.last)) / 1e9 > STUCK for one in waited_for)
