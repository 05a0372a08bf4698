"""The samples of the run, from records with a row per sample: all counted, those kept that are worth a look.

A run has millions. Kept are failed and suspect ones, the slowest, those with the lowest and the highest reward, and
some of every part of the run. Each kind has a bound of its own, so that the page is bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.statistics import EveryNth, Largest, Spread
from otel_rl.report.core.trajectory_rows import rows
from otel_rl.report.subjects.trajectories.groups import Groups
from otel_rl.report.subjects.trajectories.pass_at_k import PassAtK
from otel_rl.report.subjects.trajectories.side_calls import JUDGE, OF_BATCHES, TOOL_MODEL, SideTotals
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, spans
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.core.trajectory_rows import Row
    from otel_rl.store.reader import Log, Span

#: Rows kept of each kind, and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 40, 80
_REASONS = 100
TRAINED, NOT_TRAINED = "trained", "not trained"
_TRAINED: dict[Any, str] = {True: TRAINED, False: NOT_TRAINED}
#: Outcomes whose durations are shown, in this order.
_OUTCOMES = (TRAINED, NOT_TRAINED, Status.FINISHED, Status.DISCARDED, Status.FAILED, Status.CANCELLED)
#: Steps of which the groups are listed.
_STEPS = 1000


@dataclass(slots=True)
class Trajectories:
    """Counts of all samples, and the rows that are kept."""

    started: int = 0
    ended: int = 0
    trained: int = 0
    #: Samples of which it is known whether they were trained on.
    judged: int = 0
    suspect: int = 0
    #: Samples of which the program says whether they succeeded, and those that did.
    tried: int = 0
    succeeded: int = 0
    left_out: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    #: Sum and number of all rewards, and of those of suspect samples.
    rewards: float = 0.0
    rewarded: int = 0
    suspect_rewards: float = 0.0
    suspect_rewarded: int = 0
    judge: SideTotals = field(default_factory=SideTotals)
    tool_model: SideTotals = field(default_factory=SideTotals)
    #: Of rewards that score several trajectories at once, in steps with spans; and the sum of their seconds.
    judges_of_batches: SideTotals = field(default_factory=SideTotals)
    seconds_of_batches: float = 0.0
    groups: Groups = field(default_factory=Groups)
    trained_problems: PassAtK = field(default_factory=PassAtK)
    evaluated_problems: PassAtK = field(default_factory=PassAtK)
    #: Seconds by outcome: the statuses, and whether a sample was trained on.
    durations: dict[str, Spread] = field(default_factory=dict)
    #: Seconds of those whose age is known: when the trainer took them, being made, and waiting before or after that.
    ages: Spread = field(default_factory=Spread)
    in_flight: Spread = field(default_factory=Spread)
    waits: Spread = field(default_factory=Spread)
    #: Spans of those that are listed, by trace.
    spans: dict[str, Timeline] = field(default_factory=dict)
    _failed: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _slowest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _lowest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _highest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _spread: EveryNth[Row] = field(default_factory=lambda: EveryNth(OF_ALL_PARTS))

    def add_log(self, log: Log) -> None:
        """Take in a record of trajectories; others are ignored."""
        if log.event != events.RL_TRAJECTORIES.name or not isinstance(log.body, dict):
            return
        self.started += _count(log.attributes.get(names.RL_TRAJECTORIES_STARTED))
        left_out = _count(log.attributes.get(names.RL_TRAJECTORIES_LEFT_OUT))
        self.left_out += left_out
        self.ended += left_out
        for row in rows(log):
            self._add(row, log.process.attempt)

    def add_span(self, span: Span) -> None:
        """Take in what a step says of the judges of its batches."""
        if span.name != spans.RL_RANK_STEP.type or names.RL_REWARD_JUDGE_CALLS not in span.attributes:
            return
        numbers = [_count(span.attributes.get(name)) for name in OF_BATCHES]
        self.judges_of_batches.add_numbers(numbers)
        seconds = span.attributes.get(names.RL_REWARD_JUDGE_SECONDS)
        self.seconds_of_batches += seconds if isinstance(seconds, (int, float)) else 0.0

    def _add(self, row: Row, attempt: tuple[int, ...]) -> None:
        self.ended += 1
        status = str(row.get(names.RL_ROLLOUT_STATUS) or Status.FINISHED)
        self.by_status[status] += 1
        reason = row.get(names.RL_ROLLOUT_DISCARD_REASON)
        if reason and (reason in self.by_reason or len(self.by_reason) < _REASONS):
            self.by_reason[str(reason)] += 1
        trained = row.get(names.RL_ROLLOUT_TRAINED)
        self.judged += isinstance(trained, bool)
        self.trained += trained is True
        success = row.get(names.RL_ROLLOUT_SUCCESS)
        self.tried += isinstance(success, bool)
        self.succeeded += success is True
        is_evaluation = row.get(names.RL_ROLLOUT_EVALUATION) is True
        (self.evaluated_problems if is_evaluation else self.trained_problems).add(row, attempt)
        self.suspect += bool(row.get(names.RL_ROLLOUT_SUSPECT))
        self._add_reward(row)
        self.judge.add(row, JUDGE)
        self.tool_model.add(row, TOOL_MODEL)
        self.groups.add(row, attempt)
        if row.is_failed:
            self._failed.add(0.0, row)
        seconds = row.number(names.RL_ROLLOUT_SECONDS)
        if seconds is not None and math.isfinite(seconds):
            self._slowest.add(seconds, row)
            for outcome in (status, _TRAINED.get(trained, "")):
                if outcome in _OUTCOMES:
                    self.durations.setdefault(outcome, Spread()).add(seconds)
            self._add_age(row.number(names.RL_ROLLOUT_AGE), seconds)
        self._spread.add(row)

    def _add_age(self, age: float | None, seconds: float) -> None:
        if age is not None:
            self.ages.add(age)
            self.in_flight.add(seconds)
            self.waits.add(max(age - seconds, 0.0))

    def _add_reward(self, row: Row) -> None:
        reward = row.number(names.RL_ROLLOUT_REWARD)
        if reward is None or not math.isfinite(reward):
            return
        self.rewards += reward
        self.rewarded += 1
        if row.get(names.RL_ROLLOUT_SUSPECT):
            self.suspect_rewards += reward
            self.suspect_rewarded += 1
        self._lowest.add(-reward, row)
        self._highest.add(reward, row)

    @property
    def mean_reward(self) -> float | None:
        """Mean of all rewards."""
        return self.rewards / self.rewarded if self.rewarded else None

    @property
    def mean_reward_without(self) -> float | None:
        """The same without suspect ones."""
        others = self.rewarded - self.suspect_rewarded
        return (self.rewards - self.suspect_rewards) / others if others > 0 else None

    def outcomes(self) -> list[str]:
        """Return the outcomes whose durations are known, in a fixed order."""
        return [outcome for outcome in _OUTCOMES if outcome in self.durations]

    def chosen(self) -> dict[str, Row]:
        """Return the kept rows by a key of the page: the failed ones first, in the order of their iterations."""
        kinds = (self._failed, self._slowest, self._lowest, self._highest, self._spread)
        by_id = {id(row): row for kind in kinds for row in kind.items()}
        ordered = sorted(by_id.values(), key=_place)
        return {f"trajectory-{number}": row for number, row in enumerate(ordered, 1)}

    def traces(self, most: int) -> list[str]:
        """Return traces of rows whose spans are worth a look: failed, slowest, of the lowest reward."""
        kinds: tuple[Callable[[], list[Row]], ...] = (self._failed.items, self._slowest.items, self._lowest.items)
        rows = [row for turn in zip(*(kind()[:most] for kind in kinds), strict=False) for row in turn]
        rows += [row for kind in kinds for row in kind()]
        unique = dict.fromkeys(str(trace) for row in rows if (trace := row.get(names.RL_ROLLOUT_TRACE_ID)))
        return list(unique)[:most]


def as_json(trajectories: Trajectories) -> dict[str, Any]:
    """Return all counts and the rows that are kept, for programs."""
    return {
        "started": trajectories.started,
        "ended": trajectories.ended,
        "by_status": dict(trajectories.by_status),
        "discarded_because": dict(trajectories.by_reason),
        "trained": trajectories.trained if trajectories.judged else None,
        "succeeded": trajectories.succeeded if trajectories.tried else None,
        "pass_at_k": _solved(trajectories.trained_problems),
        "evaluation_pass_at_k": _solved(trajectories.evaluated_problems),
        "suspect": trajectories.suspect,
        "judge": trajectories.judge.as_json(),
        "tool_model": trajectories.tool_model.as_json(),
        "groups": trajectories.groups.compared,
        "dead_groups": trajectories.groups.dead,
        **_of_groups(trajectories),
        "durations": {outcome: _spread(trajectories.durations[outcome]) for outcome in trajectories.outcomes()},
        "age": _spread(trajectories.ages) if trajectories.ages.cell.count else None,
        "in_flight": _spread(trajectories.in_flight) if trajectories.in_flight.cell.count else None,
        "waited": _spread(trajectories.waits) if trajectories.waits.cell.count else None,
        "without_row": trajectories.left_out,
        "rows": [row.as_json() for row in trajectories.chosen().values()],
    }


def _solved(problems: PassAtK) -> dict[str, float] | None:
    return None if problems.solved is None else problems.solved._asdict()


def _of_groups(trajectories: Trajectories) -> dict[str, Any]:
    steps, checked, shift = trajectories.groups.steps, trajectories.groups.checked, trajectories.groups.shift
    first = checked.first
    return {
        "trained_tokens": sum(step.tokens for step in steps),
        "effective_tokens": sum(step.effective for step in steps),
        "steps": [
            {
                "step": step.iteration,
                "groups": step.groups,
                "dead_groups": step.dead,
                "trained_tokens": step.tokens,
                "effective_tokens": step.effective,
            }
            for step in steps[-_STEPS:]
        ],
        "advantages": {
            "checked": checked.samples,
            "not_known": checked.unknown,
            "differing": checked.differing,
            "first": None if first is None else first._asdict(),
        },
        "bias": {
            "samples": trajectories.suspect,
            "mean_reward": trajectories.mean_reward,
            "mean_reward_without": trajectories.mean_reward_without,
            "others_in_their_groups": shift.samples,
            "advantage_of_others": shift.advantage if shift.samples else None,
        },
    }


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "number": spread.cell.count,
        "mean": spread.cell.mean,
        "median": spread.quantile(0.5),
        "p95": spread.quantile(0.95),
        "longest": spread.cell.maximum,
    }


def _place(row: Row) -> tuple[bool, bool, int, int, str]:
    return (
        not row.is_failed,
        row.iteration is None,
        row.iteration or 0,
        row.rank or 0,
        str(row.get(names.RL_ROLLOUT_ID)),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
