"""Which stragglers are worth an event: those that cost much and last, so that one late step is not reported."""

from __future__ import annotations

from collections import deque
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.stragglers.comparison import lost_share

if TYPE_CHECKING:
    from otel_rl.ranks.stragglers.comparison import StepComparison, Straggler
    from otel_rl.ranks.stragglers.timeline import StepKey

#: Share of the step from which a straggler is reported, and below which it has ended.
LIMIT, END = 0.1, 0.05
#: Steps in a row in which one rank must be the late one. Rollouts are of uneven length, so some rank is late in each
#: step by chance. With two ranks, eight steps in a row are the same one's by chance once in 128.
STEPS = 8
#: Seconds; less is noise of the machine, however short the steps.
SHORTEST = 0.005


class StragglerChange(NamedTuple):
    """A straggler that begins, or that is over."""

    straggler: Straggler
    #: Share of the step that the others lose, and seconds of each step; means over the steps that were looked at.
    share: float
    lost: float
    #: The last of these steps, and the iteration of the first of them in the same loop.
    key: StepKey
    since: int
    is_over: bool = False

    @property
    def iteration(self) -> int:
        """Of the last step."""
        return self.key.iteration


class Persistence:
    """Told of each step that was compared; says when a straggler appears and when it is over."""

    def __init__(self) -> None:
        self._recent: deque[StepComparison] = deque(maxlen=STEPS)
        self._current: StragglerChange | None = None

    @property
    def is_open(self) -> bool:
        """A straggler has been reported and is not over."""
        return self._current is not None

    def add(self, comparison: StepComparison) -> StragglerChange | None:
        """Take one step into account; return what changes by it."""
        self._recent.append(comparison)
        if self._current is not None:
            return self._end_if_over(self._current)
        self._current = self._find()
        return self._current

    def _find(self) -> StragglerChange | None:
        steps = list(self._recent)
        if len(steps) < STEPS:
            return None
        stragglers = [step.straggler for step in steps if step.straggler is not None]
        is_one = len(stragglers) == len(steps) and len({late.rank for late in stragglers}) == 1
        if not is_one or min(step.lost_share for step in steps) < LIMIT:
            return None
        lost = fmean(late.lost for late in stragglers)
        if lost < SHORTEST:
            return None
        # The step that lost most explains best where the time goes.
        worst = max(stragglers, key=lambda late: late.lost)
        share = lost_share(steps)
        key = steps[-1].key
        return StragglerChange(worst, share, lost, key, self._of_same_loop(key)[0].iteration)

    def _of_same_loop(self, key: StepKey) -> list[StepKey]:
        """Return the latest steps of the loop of ``key``; the ranks may take those of others between them."""
        loop = key._replace(iteration=0)
        return [step.key for step in self._recent if step.key._replace(iteration=0) == loop]

    def _end_if_over(self, current: StragglerChange) -> StragglerChange | None:
        rank = current.straggler.rank
        shares = [step.lost_share if step.straggler and step.straggler.rank == rank else 0.0 for step in self._recent]
        if median(shares) >= END:
            return None
        self._current = None
        last = (self._of_same_loop(current.key) or [current.key])[-1]
        return current._replace(key=last, is_over=True)
