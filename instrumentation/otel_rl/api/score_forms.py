"""What a reward function returns in place of a number: a dictionary with parts, or an object of Model Studio.

``RewardOutput`` of ``dashscope`` has ``reward`` with ``reward_score`` and ``reward_metrics``; in that of a group
``rewards`` has one for each sample. Objects and dictionaries count, also what is in ``reward`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_rl.api.sample_ids import read
from otel_rl.inference import failures
from otel_rl.telemetry.attribute_values import number

#: Key of the score in a dictionary of a reward function, as in those of verl.
WHOLE = "score"
#: Status of a result without a score.
FAILED = "failed"


def _reward(value: Any) -> Any:
    reward = read(value, "reward")
    return value if reward is None else reward


def scores_of_group(value: Any) -> list[Any] | None:
    """Return the rewards of the samples of a group; None for anything else."""
    found = read(_reward(value), "rewards")
    return found if type(found) is list else None


def whole_and_parts(value: Any) -> tuple[Any, dict[Any, Any] | None]:
    """Return the score in ``value``, and its parts that are numbers; ``value`` itself if it has no such form."""
    reward = _reward(value)
    score = read(reward, "reward_score")
    if score is not None:
        return score, _numbers(read(reward, "reward_metrics") or {})
    if isinstance(value, Mapping) and WHOLE in value:
        return value[WHOLE], _numbers({key: part for key, part in value.items() if key != WHOLE})
    return value, None


def failure_of(value: Any) -> str | None:
    """Return the ``error.type`` of a processor's result whose status is a failure; None for any other result."""
    status = read(value, "status")
    if not isinstance(status, str) or status != FAILED:
        return None
    return failures.name_of({"code": read(value, "error_code")}, FAILED)


def _numbers(parts: Any) -> dict[Any, Any]:
    return {key: part for key, part in parts.items() if number(part) is not None} if type(parts) is dict else {}
