"""Scores of rollouts: of the whole or of a turn, with a weight and with parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any

from opentelemetry.context import get_current

from otel_rl import own_cpu
from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes, events, metrics
from otel_rl.telemetry import drops, open_trajectory, redaction
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.scope import Scope
from otel_rl.training import reward_means

_scope = Scope("api")
#: Most parts of a score; further ones are dropped and counted.
MOST_PARTS = 16
_LARGEST = sys.float_info.max
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
) -> None:
    """See :func:`otel_rl.reward`."""
    with guard("producer.reward"):
        trajectory = open_trajectory.of()
        # Of a task that outlives its rollout: a score of no sample.
        is_late = trajectory is None and open_trajectory.has_outlived(get_current())
        place = None if trajectory is None else _turn(trajectory, turn)
        score = _score(value)
        if score is not None:
            share = _weight(weight)
            if trajectory is not None:
                trajectory.add_reward(name, score, share, place)
            elif not is_late:
                reward_means.add_score(name, score, share)
            _record(name, score, place, None if share == 1 else share, label, explanation)
        for part, of_part in _parts(parts):
            full_name = f"{name}/{part}"
            if trajectory is not None:
                trajectory.add_part(full_name, of_part)
            elif not is_late:
                reward_means.add_score(full_name, of_part, None)
            _record(full_name, of_part, place, 0.0)
        if trajectory is not None and success is not None:
            trajectory.success = bool(success)


def _score(value: Any) -> float | None:
    if value is None:
        return None
    score = number(value)
    if score is None:
        drops.count("metrics", "unsupported_type")
    return score


def _weight(given: Any) -> float:
    weight = _score(given)
    return weight if weight is not None and abs(weight) <= _LARGEST else 1.0


def _turn(trajectory: open_trajectory.OpenTrajectory, given: Any) -> int | None:
    if given is None:
        return None
    turn = trajectory.turn if isinstance(given, str) and given == LAST else number(given)
    return int(turn) if turn is not None and 1 <= turn <= open_trajectory.MAXIMUM_TURNS else None


def _parts(given: Any) -> list[tuple[Any, float]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        drops.count("metrics", "unsupported_type")
        return []
    drops.count("metrics", "reward_part_limit", len(given) - MOST_PARTS)
    found = [(part, _score(value)) for part, value in islice(given.items(), MOST_PARTS)]
    return [(part, score) for part, score in found if score is not None]


def _record(
    name: Any,
    score: float,
    turn: int | None,
    weight: float | None,
    label: str | None = None,
    explanation: str | None = None,
) -> None:
    _scope.record(metrics.RL_REWARD_SCORE, score, {attributes.RL_REWARD_NAME: name})
    _scope.event(
        events.GEN_AI_EVALUATION_RESULT,
        attributes={
            attributes.GEN_AI_EVALUATION_NAME: name,
            attributes.GEN_AI_EVALUATION_SCORE_VALUE: float(score),
            attributes.GEN_AI_EVALUATION_SCORE_LABEL: label,
            attributes.GEN_AI_EVALUATION_EXPLANATION: _explanation(explanation),
            attributes.RL_ROLLOUT_TURN: turn,
            attributes.RL_REWARD_WEIGHT: weight,
        },
    )


def _explanation(explanation: str | None) -> str | None:
    if explanation is None or not capture_content():
        return None
    return redaction.text(str(explanation), "logs")
