"""Moments of several nodes on one clock.

Each node counts its monotonic clock from its own boot. Its wall clock says roughly how the two stand to each other. The
ends of waits say it better: all ranks leave a collective that keeps them together at nearly the same moment.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder.reader import KEEP_TOGETHER
from otel_rl.ranks.stragglers.replay import BLOCKED_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.ranks.model.collectives import Collective, Wait

#: Fewer common ends say less than the wall clock does.
FEWEST_ENDS = 5


class Offset(NamedTuple):
    """The offset to add to a node's moments."""

    ns: int
    #: Half of the ends lie within this much of it, in ns; None: taken from the wall clocks, error not known.
    error: int | None


def ends(waits: Iterable[Wait], operations: Mapping[Collective, str]) -> dict[Collective, int]:
    """Return when one rank left each collective that keeps the ranks together, where it had to wait for its end."""
    return {
        wait.collective: wait.ended
        for wait in waits
        if wait.ended - wait.began >= BLOCKED_NS and operations.get(wait.collective) in KEEP_TOGETHER
    }


def offset(reference: Mapping[Collective, int], other: Mapping[Collective, int], by_wall_clock: int) -> Offset:
    """Return what brings the moments of ``other`` to the clock of ``reference``; both are results of :func:`ends`.

    The two may drift apart: give the ends of the steps that are compared, not of the whole run.

    Args:
        reference: Ends of a rank of the node whose clock is used.
        other: Ends of a rank of the other node.
        by_wall_clock: The same as the wall clocks say, in ns; taken where the ranks have too few ends in common.
    """
    differences = [reference[collective] - other[collective] for collective in reference.keys() & other.keys()]
    if len(differences) < FEWEST_ENDS:
        return Offset(by_wall_clock, None)
    middle = median(differences)
    return Offset(round(middle), round(median(abs(difference - middle) for difference in differences)))
