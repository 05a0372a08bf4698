"""Collectives of a step that Python did not issue: the reducer of DDP, functional and compiled collectives.

Their calls pass no method that the recorder has replaced. Each process group numbers all its collectives though, so
the difference of the two counts is a lower bound of what was not seen. It is read once per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.collectives.recorder import CollectiveRecorder

#: How far one call of an operation may move the number of its group; 1 for all others. With gloo ``reduce_scatter``
#: of a list takes two (torch 2.13, ``ProcessGroupGloo``).
_MOST_NUMBERS = {Operation.REDUCE_SCATTER: 2}


class UnseenCollectives:
    """Compares the numbers of the process groups with the counts of the recorder over one step."""

    def __init__(self, recorder: CollectiveRecorder, numbers: Callable[[], Mapping[int, int]]) -> None:
        self._recorder = recorder
        self._numbers = numbers
        self._before: Mapping[int, int] = {}
        self._explained = 0
        self._unclear = False

    def begin(self) -> None:
        """A step begins."""
        self._before, self._explained, self._unclear = self._numbers(), self._explained_so_far(), False

    def blur(self) -> None:
        """Something has moved the numbers by an amount that is not known: nothing can be said of this step."""
        self._unclear = True

    def end(self) -> int:
        """Return how many collectives at least were not seen since :meth:`begin`."""
        now, before = self._numbers(), self._before
        # A group that has come meanwhile has no beginning; an id that was used again may have a smaller number.
        issued = sum(max(number - before[group], 0) for group, number in now.items() if group in before)
        explained = self._explained_so_far() - self._explained
        return 0 if self._unclear else max(issued - explained, 0)

    def _explained_so_far(self) -> int:
        return sum(values[0] * _MOST_NUMBERS.get(group.operation, 1) for group, values in self._recorder.values())
