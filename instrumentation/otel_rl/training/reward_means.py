"""Means of what ``otel_rl.reward`` got in each step of the program's own loop, under the keys that trainers use.

They are a log call at the end of the step, from the source that loses against all others
(:class:`~otel_rl.training.scalars.Source`). So the health rules judge them live, and the report from the record. The
loop of a trainer logs its rewards itself, and gets none of these.

A finished rollout is one sample, its reward the sum of its scores; outside of all rollouts each score is one of its
function. A sample belongs to the step that its rollout names, or to the open one where that has ended already. Samples
of an evaluation have a mean of their own. Samples outside of all steps are left out, and so are those of processes that
do not lead.

Each step keeps its samples until it has ended, for what is said of them late, at most 8,192; of more a few numbers per
function and per group. Exports do not split it.
"""

from __future__ import annotations

from collections import deque
from math import isfinite, sqrt
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH, MAXIMUM_REWARDS
from otel_rl.telemetry.scope import Scope
from otel_rl.training import phases, steps
from otel_rl.training.scalars import Source, sink

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

REWARD, DEVIATION, ZERO_VARIANCE, EVALUATION = "reward", "reward_std", "frac_reward_zero_std", "eval_reward"
SUCCESS = "success_rate"
#: Most steps that collect at once, most groups of a step. Of more steps the oldest is given up.
MAXIMUM_STEPS, MAXIMUM_GROUPS = 64, 4096
#: So many samples wait to be added up, for what the program says of them before their step ends.
_MOST_WAITING = 8192
#: A difference within a group that is none but for rounding, as a share of the reward.
_NO_DIFFERENCE = 1e-6
_FEWEST = 2
_EVALUATE = spans.RL_EVALUATE.type.removeprefix("rl.")
scope = Scope("rewards")


class _Spread:
    """Mean and spread, by differences to the first number: the mean of equal numbers is theirs to the last digit."""

    __slots__ = ("_first", "_squares", "_sum", "count")

    def __init__(self, first: float) -> None:
        self._first = first
        self.count = 0
        self._sum = self._squares = 0.0

    def add(self, value: float) -> None:
        difference = value - self._first
        self.count += 1
        self._sum += difference
        self._squares += difference * difference

    @property
    def mean(self) -> float:
        return self._first + self._sum / self.count

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample, as trainers log it."""
        return sqrt(max(self._squares - self._sum * self._sum / self.count, 0.0) / (self.count - 1))


class _Sample(NamedTuple):
    """What one sample got.

    Attributes:
        scores: by function.
        total: in all, of a rollout that got something.
        alone: a score outside of all rollouts, with its weight.
        group: of a rollout.
        rollout: what the program says of it until its step ends: that it succeeded, or is not used.
        metrics: the program's own values of a rollout.
    """

    scores: Mapping[str, float]
    total: float | None = None
    alone: float | None = None
    group: Hashable = None
    rollout: OpenTrajectory | None = None
    metrics: Mapping[str, float] = MappingProxyType({})


class Sums:
    """The samples of one step. Any thread adds, without waiting."""

    def __init__(self) -> None:
        self._waiting: deque[_Sample] = deque()
        self._lock = Lock()
        #: Scores of all samples by function; those outside of rollouts alone; and the rewards of rollouts.
        self._functions: dict[str, _Spread] = {}
        self._alone: dict[str, _Spread] = {}
        self._metrics: dict[str, _Spread] = {}
        self._totals: _Spread | None = None
        #: Rollouts that say whether they succeeded, and those that did.
        self._judged = self._succeeded = 0
        #: Group -> samples, lowest and highest reward.
        self._groups: dict[Hashable, tuple[int, float, float]] = {}
        self._overflowed = False

    def add(self, sample: _Sample) -> None:
        """Take in a sample."""
        self._waiting.append(sample)
        if len(self._waiting) >= _MOST_WAITING:
            self._add_up(0)

    def _add_up(self, patience: float) -> None:
        # A signal handler may have interrupted this thread here, and then another thread or call does the rest.
        if not self._lock.acquire(timeout=patience):
            return
        try:
            while self._waiting:
                self._count(self._waiting.popleft())
        finally:
            self._lock.release()

    def _count(self, sample: _Sample) -> None:
        if sample.rollout is not None and sample.rollout.discard_reason is not None:
            return
        for name, score in sample.scores.items():
            self._add_to(self._functions, name, score)
            if sample.alone is not None:
                self._add_to(self._alone, name, sample.alone)
        for name, value in sample.metrics.items():
            self._add_to(self._metrics, name, value)
        success = None if sample.rollout is None else sample.rollout.success
        if success is not None:
            self._judged += 1
            self._succeeded += success
        if sample.total is None:
            return
        if self._totals is None:
            self._totals = _Spread(sample.total)
        self._totals.add(sample.total)
        group = sample.group
        if group is not None and (group in self._groups or len(self._groups) < MAXIMUM_GROUPS):
            count, low, high = self._groups.get(group, (0, sample.total, sample.total))
            self._groups[group] = (count + 1, min(low, sample.total), max(high, sample.total))

    def _add_to(self, spreads: dict[str, _Spread], name: str, score: float) -> None:
        spread = spreads.get(name)
        if spread is None:
            if len(spreads) >= MAXIMUM_REWARDS:
                # Parts of scores, and values of the program's own, make no reward.
                self._overflowed = self._overflowed or spreads is self._alone
                return
            spread = spreads[name] = _Spread(score)
        spread.add(score)

    def means(self) -> dict[str, float]:
        """The values to log.

        Scores outside of rollouts are the reward's parts where each function, and the rollouts, scored equally often:
        each sample got all of them. Otherwise the reward of a sample is not known.
        """
        self._add_up(1.0)
        found = {f"rewards/{name}/mean": spread.mean for name, spread in self._functions.items()}
        for name, spread in self._metrics.items():
            found |= {f"rollout/{name}/mean": spread.mean, f"rollout/{name}/sum": spread.mean * spread.count}
        if self._judged:
            found[SUCCESS] = self._succeeded / self._judged
        parts = [*filter(None, [self._totals]), *self._alone.values()]
        if not parts or (self._overflowed and self._alone) or len({part.count for part in parts}) > 1:
            return found
        found[REWARD] = sum(part.mean for part in parts)
        if len(parts) == 1 and parts[0].count >= _FEWEST:
            found[DEVIATION] = parts[0].deviation
        compared = [(low, high) for count, low, high in self._groups.values() if count >= _FEWEST]
        if compared and not self._alone:
            alike = [high - low <= _NO_DIFFERENCE * max(abs(low), abs(high), 1.0) for low, high in compared]
            found[ZERO_VARIANCE] = sum(alike) / len(alike)
        return found

    def of_evaluation(self) -> dict[str, float]:
        """The same of an evaluation: its mean reward."""
        found = self.means()
        return {EVALUATION: found[REWARD]} if REWARD in found else {}


#: Loop, how often its numbering began anew, iteration, and whether it is an evaluation.
_Place = tuple[steps.Loop, int, int, bool]
_open: dict[_Place, Sums] = {}


def add_score(name: str, score: float, weight: float | None = 1.0) -> None:
    """A function has scored a sample outside of all rollouts; without a weight it is a part of another score."""
    step = steps.where().step
    if step is not None and isfinite(score):
        alone = None if weight is None else weight * score
        _add(step, step.iteration, _Sample({text(str(name), MAXIMUM_LENGTH): float(score)}, alone=alone))


def add_rollout(step: steps.Step, iteration: object, rollout: OpenTrajectory, group: Hashable) -> None:
    """A rollout of ``iteration`` has ended in ``step``."""
    named = iteration if isinstance(iteration, int) else step.iteration
    total = None if rollout.reward is None else float(rollout.reward)
    sample = _Sample(rollout.rewards, total, None, group, rollout, rollout.metrics)
    _add(step, max(named, step.iteration), sample)


def _add(step: steps.Step, iteration: int, sample: _Sample) -> None:
    if step.loop.logs_rewards or not process_identity.current().leads:
        return
    phase = phases.innermost()
    place = (step.loop, step.restarts, iteration, phase is not None and phase.name == _EVALUATE)
    sums = _open.get(place)
    if sums is None:
        while len(_open) >= MAXIMUM_STEPS:
            _open.pop(next(iter(_open)), None)
        sums = _open.setdefault(place, Sums())
    sums.add(sample)


def _log(step: steps.Step, _: float, end_time: int) -> None:
    """The step has been recorded: log its means, as of its end."""
    values: dict[str, float] = {}
    for place in [place for place in tuple(_open) if place[0] is step.loop and place[1:3] <= _number(step)]:
        sums = _open.pop(place, None)
        if sums is not None and place[1:3] == _number(step):
            values |= sums.of_evaluation() if place[3] else sums.means()
    if values:
        sink.log(scope, Source.OWN, step.iteration, values, belongs=(step.context, end_time))


def _number(step: steps.Step) -> tuple[int, int]:
    return step.restarts, step.iteration


# Here and not with the first reward: before the listener of the health rules, which judges a step when it has ended.
steps.listeners.add(_log)
lifecycle.after_fork_in_child(_open.clear)
