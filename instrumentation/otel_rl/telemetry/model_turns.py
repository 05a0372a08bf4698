"""Turns of one trajectory: which of its model calls are open, and the number of each answer.

A call counts when it ends, or with its trajectory. Its turn is numbered when it ends, or before, where the trajectory
goes on while the answer is open: streams that are left by ``break`` end when the garbage collector comes, or never. A
number stays, whatever becomes of the call: spans and rewards have it.

Nothing here locks, as in :mod:`otel_rl.telemetry.open_trajectory`: who takes a call out of a table counts it.
"""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most open calls of one trajectory that are known; then the first is counted as it is.
MOST_OPEN = 8192
#: Stands for a call that is not in a table, or not any more.
_GONE = object()


class SoFar(NamedTuple):
    """What a call has brought: input and output tokens, finish reasons, version of the weights."""

    tokens: tuple[int | None, int | None] = (None, None)
    reasons: Sequence[str] | None = None
    version: str | None = None


class ModelTurn(Protocol):
    """A model call with a turn."""

    #: ``time.perf_counter()`` in s: of its start, and of the head of its answer.
    started: float
    answer_began: float | None
    #: Its number, from 1 on.
    turn: int | None


class OpenModelCall(ModelTurn, Protocol):
    """One that is open."""

    def end_if_dropped(self) -> None:
        """End it where the program has dropped its answer."""

    def goes_on(self) -> None:
        """Note that the trajectory goes on with the answer as it is now; more of it may come."""

    def so_far(self) -> SoFar:
        """Return what has come of it."""


class ModelTurns:
    """Of one trajectory; ``number`` is that of its last turn."""

    __slots__ = ("_begun", "_numbers", "_open", "number")

    def __init__(self) -> None:
        self.number = 0
        self._numbers = count(1)
        self._open: dict[OpenModelCall, None] = {}
        #: Open calls whose answers have begun and have no number, in this order.
        self._begun: dict[OpenModelCall, None] = {}

    @property
    def has_open(self) -> bool:
        """True where a call is open."""
        return bool(self._open)

    def open_calls(self) -> list[OpenModelCall]:
        """Return the open calls, in the order of their beginning."""
        return list(self._open)

    def add(self, call: OpenModelCall) -> OpenModelCall | None:
        """Add a call that begins; return the first one where there are too many."""
        self._open[call] = None
        return self._first(self._open) if len(self._open) > MOST_OPEN else None

    def answer_began(self, call: OpenModelCall) -> None:
        """Note that the answer of ``call`` is there, if only its head."""
        if call in self._open:
            self._begun[call] = None

    def take(self, call: OpenModelCall) -> bool:
        """Return whether ``call`` is still to be counted; the caller does that."""
        return self._open.pop(call, _GONE) is None

    def remove(self, call: OpenModelCall) -> None:
        """Remove a call that has no turn from here on."""
        self._begun.pop(call, None)

    def give(self, call: ModelTurn) -> None:
        """Give a number to the turn of ``call``, after those of the answers that had begun before it did."""
        self.number_open(before=call.started)
        is_waiting = self._begun.pop(call, _GONE) is None  # type: ignore[call-overload]  # only open calls are found
        # Else it has its number already, or another thread is about to give it.
        if is_waiting or call.answer_began is None:
            self._give(call)

    def number_open(self, before: float = inf) -> None:
        """Give numbers to the turns of open calls whose answers have begun, ``before`` a moment in s."""
        while (call := self._first(self._begun)) is not None:
            if call.answer_began is None or call.answer_began >= before:
                return
            if self._begun.pop(call, _GONE) is None:
                self._give(call)
                call.goes_on()

    def _give(self, call: ModelTurn) -> None:
        call.turn = next(self._numbers)
        self.number += 1

    @staticmethod
    def _first(table: dict[OpenModelCall, None]) -> OpenModelCall | None:
        try:
            return next(iter(table), None)
        except RuntimeError:  # another thread has changed it meanwhile
            return None
