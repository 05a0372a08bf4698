"""How long the steps of each loop take, and so how long the process may go without progress.

Steps of a loop are told by the thread that trains, into a queue. All else belongs to the watchdog's thread.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from threading import get_ident
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from otel_rl.core import clock
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.training.steps import Loop, Step

#: Steps that tell how long a step of their loop takes: the last ones.
REMEMBERED = 64
#: The first steps of a loop load, compile and fill caches: nothing is a hang before so many have ended.
FIRST_STEPS = 5
#: Phases in which one rank may keep the others waiting for longer than any step.
MAY_BE_LONG = frozenset({RlPhaseValues.CHECKPOINT, RlPhaseValues.EVALUATE})
#: A hang takes longer than so many steps.
STEPS = 10
#: One between guessed steps also than so many times the longest of them.
_LONGEST = 2
#: Steps that began or ended since the watchdog last woke; of more, the oldest are forgotten.
_QUEUED = 4096


class _Times:
    """Of one loop."""

    __slots__ = ("ended", "seconds", "thread")

    def __init__(self) -> None:
        self.ended = 0
        #: In which its last step began.
        self.thread = 0
        self.seconds: deque[float] = deque(maxlen=REMEMBERED)


class StepTimes:
    """The loops of this process."""

    def __init__(self, minimum: float) -> None:
        self._minimum = minimum
        #: Loops, not steps: a step holds its spans and contexts, which nobody else may need any more.
        self._queue: deque[tuple[Loop, float | None, int]] = deque(maxlen=_QUEUED)
        self._loops: WeakKeyDictionary[Loop, _Times] = WeakKeyDictionary()
        #: Steps that began or ended.
        self.seen = 0
        #: The open step that began last; None between steps.
        self.step: Step | None = None

    def began(self, step: Step) -> None:
        """Queue the begin of a step; called by the thread that trains."""
        self._queue.append((step.loop, None, get_ident()))

    def ended(self, step: Step) -> None:
        """Queue the end of a step; called by the thread that trains."""
        self._queue.append((step.loop, clock.counter() - step.started, 0))

    def update(self) -> None:
        """Take in the queued steps."""
        while self._queue:
            loop, seconds, thread = self._queue.popleft()
            self.seen += 1
            times = self._loops.setdefault(loop, _Times())
            times.thread = thread or times.thread
            if seconds is not None:
                times.ended += 1
                times.seconds.append(seconds)
        self.step = next((loop.step for loop in list(self._loops) if loop.step is not None), None)

    def threads(self) -> frozenset[int]:
        """Return the threads in which the open steps have begun."""
        return frozenset(times.thread for loop, times in list(self._loops.items()) if loop.step is not None)

    def limit(self) -> float | None:
        """Seconds without progress that are a hang; None where nothing is one: before, between and after training."""
        training = [times for loop, times in list(self._loops.items()) if loop.step is not None or loop.running]
        if not training or any(times.ended < FIRST_STEPS for times in training):
            return None
        return max(self._minimum, *(STEPS * median(times.seconds) for times in training))

    def guessed_before(self) -> int | None:
        """Return the guessed step that was made last; None in a step, and where the program or a trainer marks them.

        What follows a guessed step may be a part of the next one, which is opened only with its backward pass.
        """
        loops = list(self._loops)
        if not steps.may_guess or not loops or any(loop.step or loop.running or not loop.gives_way for loop in loops):
            return None
        last = max(loops, key=lambda loop: loop.last).last
        return last if last >= 0 else None

    def limit_between_steps(self) -> float | None:
        """Seconds for which a rank may wait for others between guessed steps; None before enough of them."""
        known = list(self._loops.values())
        if not known or any(times.ended < FIRST_STEPS for times in known):
            return None
        lengths = [max(STEPS * median(times.seconds), _LONGEST * max(times.seconds)) for times in known]
        return max(self._minimum, *lengths)
