"""The manager of the rollouts: one trajectory per sample that it has made, with its reward."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.api import scores
from otel_rl.api.rollouts import Rollout
from otel_rl.instrumentors.slime.driver import scope
from otel_rl.semconv import spans
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.scope import enabled
from otel_rl.training import caller_steps
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextvars import Token

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: What SGLang calls the ends that slime names otherwise.
_STOPS = {"completed": "stop", "truncated": "length"}
#: Samples that are made already, and are only handed on.
_MADE = frozenset(_STOPS)
_ABORTED = "aborted"
#: The step that the manager makes samples for; those of a loop that it has left in the background are of the newest.
_step: int | None = None


class _SampleRollout(NamedTuple):
    rollout: Rollout
    args: Any
    evaluation: Token[bool] | None


def step_told(rollout_id: int | None) -> None:
    """Note the step of what is made from here on."""
    global _step
    _step = rollout_id


def rollout_begins(args: Any, sample: Any, *rest: Any, evaluation: bool = False, **_: Any) -> _SampleRollout | None:
    """Begin a rollout; it belongs to the step that trains on it, in an asynchronous loop the one after its caller's."""
    if not enabled() or isinstance(sample, list) or sample.status.value in _MADE:
        return None
    is_evaluation = bool(rest[1] if len(rest) > 1 else evaluation)
    # An evaluation counts its samples from 0, each time and in each of its data sets.
    name = None if is_evaluation else _text(sample.index)
    # Before the rollout, which asks it at its end.
    token = caller_steps.made_in_evaluation.set(True) if is_evaluation else None
    rollout = Rollout(name, _text(sample.index), _text(sample.group_index), None, _step, None, False, None)
    return _SampleRollout(rollout, args, token)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def rollout_ended(opened: _SampleRollout, made: Any, error: BaseException | None) -> None:
    """End the rollout; one that was made into several samples has the reward of the last."""
    samples = made if isinstance(made, list) else [made]
    if error is None and samples:
        _take(samples, opened.rollout.trajectory)
        _reward(opened.args, samples[-1], opened.rollout.trajectory)
    opened.rollout.end(error, None)
    if opened.evaluation is not None:
        with suppress(ValueError):
            caller_steps.made_in_evaluation.reset(opened.evaluation)


def _take(samples: Sequence[Any], trajectory: OpenTrajectory) -> None:
    status = samples[-1].status.value
    trajectory.stop_reason = _STOPS.get(status, status)
    if status == _ABORTED:
        trajectory.discard_reason = status
    trajectory.add_metric("response_length", float(sum(sample.response_length for sample in samples)))


def _reward(args: Any, sample: Any, rollout: OpenTrajectory | str) -> None:
    """Record the reward by the name of what gave it; of several values the one that is trained on, with the others."""
    given = sample.reward
    if given is None:
        return
    whole, parts = given, None
    if isinstance(given, dict):
        whole = given.get(args.reward_key)
        parts = {key: part for key, part in given.items() if key != args.reward_key and number(part) is not None}
    scores.reward(_name_of_reward(args, sample), whole, None, None, None, 1.0, parts, None, rollout)


def _name_of_reward(args: Any, sample: Any) -> str:
    function = sample.custom_rm_path or args.custom_rm_path
    if function:
        return str(function).rpartition(".")[2]
    metadata = sample.metadata if isinstance(sample.metadata, dict) else {}
    return str(metadata.get("rm_type") or args.rm_type or "reward")


def group_ended(group: Iterable[Any], args: Any, *_: Any, **__: Any) -> None:
    """Record rewards that are given to a group, after the rollouts of its samples."""
    if args.group_rm and enabled():
        for sample in group:
            if not isinstance(sample, list) and sample.index is not None:
                _reward(args, sample, str(sample.index))


def reward_begins(*_: Any, **__: Any) -> Phase | None:
    """Begin to score a sample."""
    return Phase(spans.RL_REWARD, scope).start() if enabled() else None
