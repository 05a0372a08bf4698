"""One step again, in which late ranks work as long as the fastest: when would the others have come to its end?

All other ranks keep their own work: the time between what they did and what they did next. Only the waits change. A
wait ends when all ranks that it depended on have entered the collective, plus the time that the transfer took.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.ranks.model.collectives import Collective, Wait
    from otel_rl.ranks.stragglers.timeline import RankStep

    #: Collective -> rank -> when it entered, in ns.
    Entered = Mapping[Collective, Mapping[int, int]]
    #: Rank -> collective for which it waits -> share that is left of its work since the wait before.
    Mended = Mapping[int, Mapping[Collective, float]]

#: A wait that is shorter found its collective complete.
BLOCKED_NS = 20_000


class _Action(NamedTuple):
    """What a rank did at ``moment``: it entered a collective, began to wait, or ended a wait."""

    moment: int
    order: int
    entered: Collective | None = None
    waited: Wait | None = None


class Replay:
    """The ranks of one step, which may be run again."""

    def __init__(self, steps: Mapping[int, RankStep]) -> None:
        self._steps = steps
        self.entered: Entered = entered_by(steps)
        self._actions = {rank: _actions(step) for rank, step in steps.items()}
        self._transfers = self._shortest_transfers()

    def ends(self, mended: Mended | None = None) -> dict[int, int] | None:
        """Return when each rank comes to the end of the step, in ns, where ``mended`` ranks do less before a wait.

        None where the ranks wait for each other in a circle: then records are missing.
        """
        entered: dict[Collective, dict[int, int]] = defaultdict(dict)
        runs = {
            rank: _Run(step, self._actions[rank], (mended or {}).get(rank, {})) for rank, step in self._steps.items()
        }
        waiting = set(runs)
        while waiting:
            # Each of them gets its turn.
            went_on = [self._advance(rank, runs[rank], entered) for rank in waiting]
            if not any(went_on):
                return None
            waiting = {rank for rank in waiting if runs[rank].next is not None}
        for rank, run in runs.items():
            run.work_until(self._steps[rank].ended)
        return {rank: run.now for rank, run in runs.items()}

    def _advance(self, rank: int, run: _Run, entered: dict[Collective, dict[int, int]]) -> bool:
        """Run one rank up to a wait for what has not happened yet; False where it could do nothing."""
        went_on = False
        while run.next is not None:
            action = run.next
            if action.waited is not None:
                complete = self._complete(action.waited, entered)
                if complete is None:
                    break
                run.wait_until(complete, action.moment)
            else:
                run.work_until(action.moment)
                if action.entered is not None:
                    entered[action.entered][rank] = run.now
            run.step()
            went_on = True
        return went_on

    def _complete(self, wait: Wait, entered: dict[Collective, dict[int, int]]) -> int | None:
        """When ``wait`` can end; 0 where it depends on nobody, None where that is not known yet."""
        there = entered[wait.collective]
        needed = self._needed(wait)
        if any(other not in there for other in needed):
            return None
        if not needed:
            return 0
        return max(there[other] for other in needed) + self._transfer(wait)

    def _needed(self, wait: Wait) -> list[int]:
        """Return the ranks that had entered when the wait ended: the root of a broadcast waits for nobody."""
        return [rank for rank, moment in self.entered.get(wait.collective, {}).items() if moment <= wait.ended]

    def _transfer(self, wait: Wait) -> int:
        if wait.ended - wait.began < BLOCKED_NS:
            return self._transfers.get(wait.collective, 0)
        return self._since_last(wait)

    def _since_last(self, wait: Wait) -> int:
        """Ns from the moment that the last rank had entered to the end of the wait."""
        moments = self.entered.get(wait.collective, {})
        return wait.ended - max((moments[rank] for rank in self._needed(wait)), default=wait.ended)

    def _shortest_transfers(self) -> dict[Collective, int]:
        shortest: dict[Collective, int] = {}
        for step in self._steps.values():
            for wait in step.waits:
                took = self._since_last(wait)
                shortest[wait.collective] = min(took, shortest.get(wait.collective, took))
        return shortest


def entered_by(steps: Mapping[int, RankStep]) -> dict[Collective, dict[int, int]]:
    """Return when each rank entered each collective of the step."""
    moments: dict[Collective, dict[int, int]] = defaultdict(dict)
    for rank, step in steps.items():
        for collective, moment in step.launches.items():
            moments[collective][rank] = moment
    return moments


class _Run:
    """Where one rank is: in the replay (``now``) and in the original."""

    def __init__(self, step: RankStep, actions: list[_Action], left: Mapping[Collective, float]) -> None:
        self.now = self._original = step.since
        self._actions = iter(actions)
        self.next = next(self._actions, None)
        waits = [action.waited for action in actions if action.waited is not None] if left else []
        self._left = iter([left.get(wait.collective, 1.0) for wait in sorted(waits, key=lambda wait: wait.began)])
        self._share = next(self._left, 1.0)

    def step(self) -> None:
        self.next = next(self._actions, None)

    def work_until(self, original: int) -> None:
        """Do what took until ``original``, or the share of it that is left."""
        did = max(original - self._original, 0)
        self.now += did if self._share == 1.0 else round(did * self._share)
        self._original = max(original, self._original)

    def wait_until(self, complete: int, original: int) -> None:
        """End a wait, which ended at ``original``."""
        self.now = max(self.now, complete)
        self._original = max(original, self._original)
        self._share = next(self._left, 1.0)


def _actions(step: RankStep) -> list[_Action]:
    actions = [_Action(moment, 2, entered=collective) for collective, moment in step.launches.items()]
    for wait in step.waits:
        if wait.ended <= step.ended:
            # Of one moment: first the end of a wait, then what follows it.
            actions += [_Action(wait.began, 1), _Action(wait.ended, 0 if wait.began < wait.ended else 3, waited=wait)]
    return sorted(actions, key=lambda action: action[:2])
