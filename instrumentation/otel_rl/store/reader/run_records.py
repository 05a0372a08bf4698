"""What a run says of itself as a whole: its settings, and what it came to."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from otel_rl.core.logged_keys import direction
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none, list_of

if TYPE_CHECKING:
    from otel_rl.store.reader.records import Log

_COLUMNS = (
    names.RL_RUN_RESULT_KEY,
    names.RL_RUN_RESULT_LAST,
    names.RL_RUN_RESULT_LAST_STEP,
    names.RL_RUN_RESULT_BEST,
    names.RL_RUN_RESULT_BEST_STEP,
)


#: Keys by which trainers log the reward, and the loss; whether more is better is said by the value itself.
_REWARD = re.compile(r"(?<![a-z])(rewards?|returns?|ep_rew_mean)(?![a-z])", re.IGNORECASE)
_LOSS = re.compile(r"(?<![a-z])loss(?![a-z])", re.IGNORECASE)
#: Keys of other rewards than those that the rollouts of training were given: what a value function or an advantage is
#: made from, and evaluations.
_BESIDE = re.compile(
    r"(?<![a-z])((?<!episode.)(?<!episodic.)(?<!ep.)returns?|loss(es)?|advantages?"
    r"|eval|evaluate|evaluation|val|validation|test|testing|dev|heldout)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """Last and best value of a key that the program logged, and their iterations; None for what is not known."""

    key: str
    last: float | None
    last_step: int | None = None
    best: float | None = None
    best_step: int | None = None


def result_of(log: Log) -> list[LoggedValue]:
    """Return what a process had logged at its end, keys that have a best value first; empty for any other record."""
    if log.event != events.RL_RUN_END.name:
        return []
    rows = zip_longest(*(list_of(log.body, name) for name in _COLUMNS))
    return [
        LoggedValue(key, float_or_none(last), int_or_none(last_step), float_or_none(best), int_or_none(best_step))
        for key, last, last_step, best, best_step in rows
        if isinstance(key, str)
    ]


def logged_in_step(log: Log) -> list[LoggedValue]:
    """Return the numbers that a process logged of one step; empty for any other record."""
    if log.event != events.RL_STEP.name or not isinstance(log.body, dict):
        return []
    step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
    values = {key: None if isinstance(value, bool) else float_or_none(value) for key, value in log.body.items()}
    return [LoggedValue(key, value, step) for key, value in values.items() if value is not None]


def reward_of_rollouts(log: Log) -> LoggedValue | None:
    """Return the mean reward that the program gave the finished rollouts of a record, without evaluations."""
    step = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_STEP))
    if step is None or not isinstance(log.body, dict):
        # Outside of all steps, or a trainer logs the rewards.
        return None
    columns = (names.RL_ROLLOUT_REWARD, names.RL_ROLLOUT_STATUS, names.RL_ROLLOUT_EVALUATION)
    rewards = [
        float(reward)
        for reward, status, evaluated in zip_longest(*(list_of(log.body, name) for name in columns))
        if isinstance(reward, (int, float)) and math.isfinite(reward) and status == Status.FINISHED and not evaluated
    ]
    return LoggedValue("reward", sum(rewards) / len(rewards), step) if rewards else None


def score_of(log: Log) -> LoggedValue | None:
    """Return a score that the program gave in a step outside of all rollouts; None for any other record."""
    if log.event != events.GEN_AI_EVALUATION_RESULT.name or names.RL_ROLLOUT_ID in log.attributes:
        return None
    score = float_or_none(log.attributes.get(names.GEN_AI_EVALUATION_SCORE_VALUE))
    step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
    if score is None or not math.isfinite(score) or step is None:
        return None
    return LoggedValue("reward", score, step)


def reward_of(values: list[LoggedValue]) -> LoggedValue | None:
    """Return the reward among the values of which more is better."""
    return _main([value for value in values if _REWARD.search(value.key) and direction(value.key) > 0])


def loss_of(values: list[LoggedValue]) -> LoggedValue | None:
    """Return the loss."""
    return _main([value for value in values if value.last is not None and _LOSS.search(value.key)])


def _main(values: list[LoggedValue]) -> LoggedValue | None:
    """Return the one with the shortest key, of those that the second half of the steps still logged.

    An evaluation and the like comes after all others, and a reward that is normalised after the raw one.
    """
    latest = max((value.last_step or 0 for value in values), default=0)
    recent = (value for value in values if 2 * (value.last_step or 0) >= latest)
    return min(recent, key=_rank, default=None)


def _rank(value: LoggedValue) -> tuple[int, bool, int]:
    return len(_BESIDE.findall(value.key)), "raw_reward" not in value.key, len(value.key)


def as_json(value: LoggedValue) -> dict[str, Any]:
    """Return the value for programs."""
    return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}


def json_value(value: Any) -> Any:
    """Return the value as JSON may have it: a number that is not finite is a text, as OTLP has it."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def configuration_of(log: Log) -> tuple[str, dict[str, Any]] | None:
    """Return the source of settings and the settings themselves; None for any other record.

    A later record of the same source has only what has changed.
    """
    if log.event != events.RL_RUN_CONFIGURATION.name or not isinstance(log.body, dict):
        return None
    return str(log.attributes.get(names.RL_RUN_CONFIGURATION_SOURCE) or ""), log.body
