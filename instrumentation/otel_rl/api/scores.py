"""Scores of rollouts: of the whole or of a turn, with a weight and with parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.api import score_forms, scored_rollouts
from otel_rl.api.user_messages import say_no_number, say_once
from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, events, metrics
from otel_rl.telemetry import drops, open_trajectory, redaction
from otel_rl.telemetry.attribute_values import number, numbers_of
from otel_rl.telemetry.content_capture import capture
from otel_rl.telemetry.scope import Scope
from otel_rl.training import rewards, rollout_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context

    from otel_rl.api.scored_rollouts import ScoredRollout
    from otel_rl.training.trajectory_shares import TrajectoryName

_scope = Scope("api")
#: Most parts of a score; further ones are dropped and counted.
MOST_PARTS = 16
LARGEST_WEIGHT = sys.float_info.max
#: Most scores that one call of a reward function gives; further ones are dropped and counted.
MOST_SCORES = 8192
#: Advice for what is no score.
MAPPING_ADVICE = "give the value that is the score, and the others as parts"
NUMBER_ADVICE = "give a number, or None where there is none"
#: Stands for the turn that goes on.
LAST = "last"


@own_cpu.estimated("producer.reward")
def reward(
    name: Any,
    value: Any,
    label: str | None,
    explanation: str | None,
    turn: Any,
    weight: Any,
    parts: Any,
    success: Any,
    rollout: Any = None,
) -> None:
    """See :func:`otel_rl.reward`; ``rollout`` is an id, or the counters of one that this process has."""
    with guard("producer.reward"):
        context = get_current()
        scored = _scored(context, rollout)
        _add(context, scored, name, value, (label, explanation), turn, weight, parts)
        if scored is not None and success is not None:
            scored.succeed(success)


def _scored(context: Context, rollout: Any) -> ScoredRollout | None:
    if rollout is None:
        return scored_rollouts.around(context)
    if isinstance(rollout, open_trajectory.OpenTrajectory):
        return scored_rollouts.of(rollout)
    return scored_rollouts.named(rollout)


def returned(
    context: Context,
    name: str,
    value: Any,
    weight: Any,
    rollouts: Sequence[TrajectoryName | None] = (),
    *,
    is_batch: bool = False,
    is_part: bool = False,
) -> None:
    """Record what a reward function has returned: the score of the rollout in ``context``, or one per sample.

    See :func:`otel_rl.reward_function` for what counts as a score. ``rollouts`` are those of its samples, where it was
    called outside of them. A score that ``is_part`` of another one counts in no sum.
    """
    several = _several(value)
    if is_batch and several is not None and len(several) == len(rollouts):
        for score, rollout in zip(several, rollouts, strict=True):
            whole, parts = score_forms.whole_and_parts(score)
            _add(context, _of_name(rollout), name, whole, (None, None), None, weight, parts)
        return
    if several is not None and len(several) > 1:
        _add_each(context, name, several)
        return
    if several is not None:
        value = next(iter(several), None)
    value, parts = score_forms.whole_and_parts(value)
    scored = scored_rollouts.around(context)
    if scored is None and len(rollouts) == 1:
        scored = _of_name(rollouts[0])
    _add(context, scored, name, value, (None, None), None, weight, parts, is_part=is_part)


def _of_name(name: TrajectoryName | None) -> ScoredRollout | None:
    return None if name is None else scored_rollouts.by_name(name)


def _several(value: Any) -> Sequence[Any] | None:
    """Return the scores of several samples; None where ``value`` is no list of scores."""
    of_group = score_forms.scores_of_group(value)
    if of_group is not None:
        return of_group
    if isinstance(value, list) or (isinstance(value, tuple) and all(map(_is_score, islice(value, MOST_SCORES)))):
        return value
    scores = numbers_of(value, MOST_SCORES)
    if scores is not None:
        drops.count("metrics", "reward_batch_limit", value.shape[0] - len(scores))
    return scores


def _is_score(value: Any) -> bool:
    return value is None or number(value) is not None


def _add_each(context: Context, name: str, values: Sequence[Any]) -> None:
    drops.count("metrics", "reward_batch_limit", len(values) - MOST_SCORES)
    scores = [_score(score_forms.whole_and_parts(value)[0], name) for value in islice(values, MOST_SCORES)]
    rewards.record(_scope, {name: scores}, context)


def _add(
    context: Context,
    scored: ScoredRollout | None,
    name: Any,
    value: Any,
    words: tuple[str | None, str | None],
    turn: Any,
    weight: Any,
    parts: Any,
    *,
    is_part: bool = False,
) -> None:
    """Add a score and its parts to the rollout that is ``scored``, where there is one."""
    context = context if scored is None else scored.context
    place = None if scored is None else _turn(scored, turn)
    score = _score(value, name)
    if score is not None:
        share = 0.0 if is_part else _weight(weight, name)
        if scored is not None and is_part:
            scored.add_part(name, score)
        elif scored is not None:
            scored.add_reward(name, score, share, place)
        record(context, scored, name, score, place, None if share == 1 else share, *words)
    for part, of_part in _parts(parts, name):
        full_name = f"{name}/{part}"
        if scored is not None:
            scored.add_part(full_name, of_part)
        record(context, scored, full_name, of_part, place, 0.0)


def _score(value: Any, name: object) -> float | None:
    if value is None:
        return None
    score = number(value)
    if score is None:
        drops.count("metrics", "unsupported_type")
        say_no_number("the score of", name, value, MAPPING_ADVICE if isinstance(value, Mapping) else NUMBER_ADVICE)
    return score


def _weight(given: Any, name: object) -> float:
    weight = _score(given, f"{name} (its weight)")
    return weight if weight is not None and abs(weight) <= LARGEST_WEIGHT else 1.0


def _turn(scored: ScoredRollout, given: Any) -> int | None:
    if given is None:
        return None
    is_last = isinstance(given, str) and given == LAST
    turn = scored.turn if is_last else number(given)
    if turn is not None and 1 <= turn <= open_trajectory.MAXIMUM_TURNS:
        return int(turn)
    if not is_last:
        drops.count("metrics", "reward_turn")
        say_once(
            "turn", 'a reward of a turn that is no number from 1 on, nor "last", counts for the whole rollout only'
        )
    return None


def _parts(given: Any, name: object) -> list[tuple[Any, float]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        drops.count("metrics", "unsupported_type")
        return []
    drops.count("metrics", "reward_part_limit", len(given) - MOST_PARTS)
    scores = [(part, _score(value, f"{name}/{part}")) for part, value in islice(given.items(), MOST_PARTS)]
    return [(part, score) for part, score in scores if score is not None]


def record(
    context: Context,
    scored: ScoredRollout | None,
    name: Any,
    score: float,
    turn: int | None = None,
    weight: float | None = None,
    label: str | None = None,
    explanation: str | None = None,
    scope: Scope = _scope,
) -> None:
    """Record a score that its rollout, where it has one, has been given: the histogram, and perhaps an event."""
    scope.record(metrics.RL_REWARD_SCORE, score, {attributes.RL_REWARD_NAME: name}, context)
    if scored is not None and label is explanation is None and rollout_spans.leaves_event_to_row(context):
        return
    scope.event(
        events.GEN_AI_EVALUATION_RESULT,
        attributes={
            attributes.GEN_AI_EVALUATION_NAME: name,
            attributes.GEN_AI_EVALUATION_SCORE_VALUE: float(score),
            attributes.GEN_AI_EVALUATION_SCORE_LABEL: label,
            attributes.GEN_AI_EVALUATION_EXPLANATION: _explanation(explanation),
            attributes.RL_ROLLOUT_ID: None if scored is None else scored.identifier,
            attributes.RL_ROLLOUT_TURN: turn,
            attributes.RL_REWARD_WEIGHT: weight,
        },
        context=context,
    )


def _explanation(explanation: str | None) -> str | None:
    wanted = capture()
    # It stands on an event, in any mode.
    if explanation is None or not (wanted.span or wanted.event):
        return None
    return redaction.text(str(explanation), "logs")
