"""The ranks of a whole run, on one or several nodes: the steps that their rings hold, and what stragglers cost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from otel_rl.ranks.stragglers import clocks, timeline
from otel_rl.ranks.stragglers.clocks import Offset
from otel_rl.ranks.stragglers.comparison import LATE, compare, share_of
from otel_rl.ranks.stragglers.lasting import lateness

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from otel_rl.flight_recorder.reader import RingSnapshot
    from otel_rl.ranks.model.collectives import Collective
    from otel_rl.ranks.stragglers.comparison import StepComparison, Straggler
    from otel_rl.ranks.stragglers.lasting import Lateness
    from otel_rl.ranks.stragglers.meetings import Place
    from otel_rl.ranks.stragglers.timeline import StepKey

_Key = TypeVar("_Key", bound="Hashable")

#: More ranks are not compared: every one is read and sorted.
MOST_RANKS = 64
#: Newest steps that are compared.
MOST_STEPS = 100


class Node(NamedTuple):
    """Processes that share a monotonic clock."""

    host: str
    boot_id: str


class Cost(NamedTuple):
    """The cost of one rank to the others, over the steps in which it was late."""

    rank: int
    steps: int
    #: Seconds that the others lost in such a step, and what mending this rank alone gives back; means.
    lost: float
    alone: float
    #: Share of the time of all compared steps that they lost.
    share: float
    operation: str
    group: str
    #: Empty: outside of all phases.
    phase: str


@dataclass
class RunComparison:
    """The steps that were compared, oldest first, and how the clocks of the nodes were brought together."""

    steps: list[StepComparison]
    #: Of each node but the first, whose clock is used.
    offsets: dict[Node, Offset]
    #: Steps that were not compared, since some of their collectives were no longer in a ring.
    not_whole: int = 0

    @property
    def incomplete(self) -> str:
        """How many steps were not compared, in words."""
        return f"collectives of {self.not_whole} of {len(self.steps) + self.not_whole} steps were no longer in the ring"

    def costs(self) -> list[Cost]:
        """Each rank that cost the others something, the dearest over all steps first."""
        by_rank: dict[int, list[list[Straggler]]] = defaultdict(list)
        for step in self.steps:
            places: dict[int, dict[Place, Straggler]] = defaultdict(dict)
            for late in step.late:
                for rank in late.ranks:
                    # With as few others as possible.
                    places[rank].setdefault(late.place, late.straggler(rank))
            for rank, at_places in places.items():
                by_rank[rank].append(list(at_places.values()))
        costs = [_cost(rank, steps, self.steps) for rank, steps in by_rank.items()]
        return sorted(costs, key=lambda cost: cost.lost * cost.steps, reverse=True)

    def lateness(self) -> list[Lateness]:
        """Each rank that was late at a place, in the steps in which it was so again and again."""
        return lateness(self.steps, LATE)


def compare_rings(rings: Sequence[RingSnapshot]) -> RunComparison | None:
    """Compare the newest steps that the rings of all ranks hold; None where fewer than two ranks share a step.

    Steps with a collective that is no longer in a ring are left out: who was late in them is not known.
    """
    of_ranks = {ring.rank: ring for ring in rings if ring.rank is not None}
    if not 1 < len(of_ranks) <= MOST_RANKS:
        return None
    offsets = _offsets(list(of_ranks.values()))
    steps = {
        rank: timeline.steps(rank, ring.records, offsets[_node(ring)].ns, all_since=ring.collectives_since)
        for rank, ring in of_ranks.items()
    }
    keys = _common(list(steps.values()))[-MOST_STEPS:]
    of_keys = [(key, {rank: steps_of_rank[key] for rank, steps_of_rank in steps.items()}) for key in keys]
    whole = [(key, ranks) for key, ranks in of_keys if all(step.is_whole for step in ranks.values())]
    compared = [compare(key, ranks) for key, ranks in whole]
    return RunComparison(compared, dict(list(offsets.items())[1:]), len(keys) - len(whole)) if keys else None


def _common(steps: Sequence[dict[StepKey, timeline.RankStep]]) -> list[StepKey]:
    first, *others = steps
    return [key for key in first if all(key in other for other in others)]


def _node(ring: RingSnapshot) -> Node:
    return Node(ring.host, ring.lifetime.boot_id)


def _offsets(rings: Sequence[RingSnapshot]) -> dict[Node, Offset]:
    """Node -> what brings its moments to the clock of the first node, which comes first."""
    by_node: dict[Node, list[RingSnapshot]] = defaultdict(list)
    for ring in sorted(rings, key=lambda ring: ring.rank or 0):
        by_node[_node(ring)].append(ring)
    (reference, first), *others = by_node.items()
    offsets = {reference: Offset(0, 0)}
    ends = [_ends(ring) for ring in first] if others else []
    for node, members in others:
        pairs = [(own, _ends(member)) for member in members for own in ends]
        # The two that were most often in one collective.
        ours, theirs = max(pairs, key=lambda pair: len(pair[0].keys() & pair[1].keys()))
        offsets[node] = clocks.offset(ours, theirs, _between_wall_clocks(first[0], members[0]))
    return offsets


def _ends(ring: RingSnapshot) -> dict[Collective, int]:
    waits, operations = timeline.waits(ring.records)
    return clocks.ends(waits, operations)


def _between_wall_clocks(first: RingSnapshot, other: RingSnapshot) -> int:
    return (other.clocks[1] - other.clocks[0]) - (first.clocks[1] - first.clocks[0])


def _by_loss(stragglers: Sequence[Straggler], what: Callable[[Straggler], _Key]) -> _Key:
    """Return what most of the lost time belongs to."""
    lost: dict[_Key, float] = defaultdict(float)
    for late in stragglers:
        lost[what(late)] += late.lost
    return max(lost, key=lost.__getitem__)


def _cost(rank: int, steps: Sequence[Sequence[Straggler]], compared: Sequence[StepComparison]) -> Cost:
    stragglers = [late for step in steps for late in step]
    lost = sum(late.lost for late in stragglers)
    operation, group = _by_loss(stragglers, lambda late: (late.operation, late.group))
    return Cost(
        rank,
        len(steps),
        lost / len(steps),
        sum(late.alone for late in stragglers) / len(steps),
        share_of(lost, compared),
        operation,
        group,
        _by_loss(stragglers, lambda late: late.phase),
    )
