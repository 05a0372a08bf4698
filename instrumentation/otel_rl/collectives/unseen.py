"""Collectives of a step that were not seen: DDP's, functional and compiled ones, where only Python's are watched.

Each process group numbers all its collectives, whoever issues them. So the difference of that number and of the
recorder's count is a lower bound of what was not seen. It is read at both ends of a step. Steps that
are open at once have a beginning each. One collective may count in several of them, as it does in their sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.collectives.recorder import CollectiveRecorder

#: How far one call of an operation may move the number of its group; 1 for all others. With gloo ``reduce_scatter``
#: of a list takes two (torch 2.13, ``ProcessGroupGloo``).
_MOST_NUMBERS = {Operation.REDUCE_SCATTER: 2}


class Beginning(NamedTuple):
    """What a step compares its end with.

    Attributes:
        numbers: of each process group's latest collective.
        explained: how far the collectives that were seen may have moved the numbers.
        blurs: how often something has moved them by an amount that is not known.
    """

    numbers: Mapping[int, int]
    explained: int
    blurs: int


class UnseenCollectives:
    """Compares the numbers of the process groups with the counts of the recorder over a step."""

    def __init__(self, recorder: CollectiveRecorder, numbers: Callable[[], Mapping[int, int]]) -> None:
        self._recorder = recorder
        self._numbers = numbers
        self._blurs = 0

    def begin(self) -> Beginning:
        """Return where the numbers are when a step begins, for :meth:`since` when it ends."""
        return Beginning(self._numbers(), self._explained_so_far(), self._blurs)

    def has_groups(self) -> bool:
        """Return whether there is a process group."""
        return bool(self._numbers())

    def blur(self) -> None:
        """Give up every open step: something has moved the numbers by an unknown amount."""
        self._blurs += 1

    def since(self, beginning: Beginning) -> int | None:
        """Return how many collectives at least were not seen since ``beginning``; None where that cannot be said."""
        if self._blurs != beginning.blurs:
            return None
        now, before = self._numbers(), beginning.numbers
        # A group that has come meanwhile has no beginning; an id that was used again may have a smaller number.
        issued = sum(max(number - before[group], 0) for group, number in now.items() if group in before)
        return max(issued - (self._explained_so_far() - beginning.explained), 0)

    def _explained_so_far(self) -> int:
        return sum(values[0] * _MOST_NUMBERS.get(group.operation, 1) for group, values in self._recorder.values())
