"""Which samples of a batch are recorded on their own, and an event for each of their scores.

A batch has too many samples to keep them all. Chosen are the one with the lowest and the one with the highest reward,
one in which a tool failed, the longest, and one whose place moves on with the iterations: a share that no outcome
chooses. Their scores are events whether content is captured or not: there is no text in them.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import settings
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTrajectoryReasonValues as Reason
from otel_rl.telemetry.open_trajectory import MAXIMUM_REWARDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.context import Context

    from otel_rl.telemetry import Scope
    from otel_rl.training.trajectory_columns import Columns

#: Columns that name a sample.
_IDS = (attributes.RL_ROLLOUT_ID, attributes.RL_GROUP_ID, attributes.RL_POLICY_VERSION)


class SampleScores(NamedTuple):
    """What decides which samples are chosen; a value for each."""

    rewards: Sequence[float | None]
    lengths: Sequence[int]
    tool_errors: Mapping[int, int]
    iteration: int | None


def chosen(outcome: SampleScores) -> dict[int, str]:
    """Places of the samples that are chosen, each with the first reason for it."""
    reasons: dict[int, str] = {}
    if not outcome.lengths:
        return reasons
    for place, reason in _candidates(outcome):
        reasons.setdefault(place, reason)
    return reasons


def _candidates(outcome: SampleScores) -> Iterator[tuple[int, str]]:
    rewarded = {
        place: reward for place, reward in enumerate(outcome.rewards) if reward is not None and math.isfinite(reward)
    }
    if rewarded:
        yield min(rewarded, key=rewarded.__getitem__), Reason.LOWEST_REWARD
        yield max(rewarded, key=rewarded.__getitem__), Reason.HIGHEST_REWARD
    failed = next((place for place, errors in sorted(outcome.tool_errors.items()) if errors), None)
    if failed is not None and failed < len(outcome.lengths):
        yield failed, Reason.TOOL_ERROR
    yield max(range(len(outcome.lengths)), key=outcome.lengths.__getitem__), Reason.LONGEST
    yield (outcome.iteration or 0) % len(outcome.lengths), Reason.REGULAR


def record_scores(scope: Scope, outcome: SampleScores, columns: Columns, context: Context) -> None:
    """Record an evaluation event for each score of each chosen sample; on an I/O thread."""
    most = settings.current().evaluated_samples
    for place, reason in islice(chosen(outcome).items(), most):
        of_sample = {key: columns.values[key][place] for key in _IDS if key in columns.values}
        of_sample |= {attributes.RL_LOOP_ITERATION: outcome.iteration, attributes.RL_TRAJECTORY_REASON: reason}
        for name, scores in islice(columns.scores.items(), MAXIMUM_REWARDS):
            score = scores[place]
            # NaN says that the function does not apply.
            if score is not None and math.isfinite(score):
                values = _evaluation(name, score, columns.weights.get(name, 1.0))
                scope.event(events.GEN_AI_EVALUATION_RESULT, attributes={**of_sample, **values}, context=context)


def _evaluation(name: str, score: float, weight: float | None) -> dict[str, Any]:
    return {
        attributes.GEN_AI_EVALUATION_NAME: name,
        attributes.GEN_AI_EVALUATION_SCORE_VALUE: score,
        attributes.RL_REWARD_WEIGHT: None if weight == 1 else weight,
    }
