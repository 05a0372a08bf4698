"""The row of a trajectory that ends by itself: what its calls add up to, and what the program says of it.

Samples that a trainer makes in a batch have no such row, see :func:`otel_rl.training.trajectories.add_batch`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace as trace_api

from otel_rl.core import clock
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlRolloutStatusValues
from otel_rl.telemetry import open_trajectory, side_calls
from otel_rl.telemetry.attribute_values import is_cancellation, text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.training import caller_steps, lowest_rewards, trajectories
from otel_rl.training.trajectory_columns import Columns, rewards_of_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span

    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

#: Columns that name a trajectory.
_IDS = (
    attributes.RL_ROLLOUT_ID,
    attributes.RL_SAMPLE_ID,
    attributes.RL_GROUP_ID,
    attributes.RL_ROLLOUT_ATTEMPT,
    attributes.RL_POLICY_VERSION,
    attributes.GEN_AI_CONVERSATION_ID,
    attributes.GEN_AI_AGENT_NAME,
    attributes.RL_ENVIRONMENT_NAME,
)
#: How a trajectory ends that something has ended.
_NOT_FINISHED = (RlRolloutStatusValues.FAILED, RlRolloutStatusValues.CANCELLED)


class Ended(NamedTuple):
    """A trajectory that ended by itself.

    Attributes:
        trajectory: its counters.
        ids: attributes that name it, its sample and so on; others are not read.
        span: the span that stands for it, where it has one.
        seconds: its duration.
        error: what ended it, an exception or an ``error.type``.
    """

    trajectory: OpenTrajectory
    ids: Mapping[str, Any]
    span: Span | None
    seconds: float
    error: BaseException | str | None


def add(scope: Scope, source: str, ended: Ended) -> dict[str, Any]:
    """Add a trajectory that has ended; return what its span says of it."""
    trajectory = ended.trajectory
    trajectory.finish_unparsed()
    trajectory.count_open_calls()
    trajectory.has_ended = True
    own = None if ended.span is None else ended.span.get_span_context()
    trace = trace_api.format_trace_id(own.trace_id) if own is not None and own.is_valid else None
    identifier = ended.ids.get(attributes.RL_ROLLOUT_ID)
    trajectory.names = identifier, trace
    if isinstance(identifier, str):
        open_trajectory.known_as(identifier, trajectory)
    counted = _totals(trajectory)
    if trajectory.reward is not None:
        counted[attributes.RL_ROLLOUT_REWARD] = trajectory.reward
        # Always: the lowest reward is known from all of them.
        lowest_rewards.known.add(trajectory.rewards, (trajectory.reward,))
        if is_suspect(trajectory, failed=ended.error is not None):
            counted[attributes.RL_ROLLOUT_SUSPECT] = True
    of_engines = _add_versions(scope, trajectory, counted, ended.ids.get(attributes.RL_POLICY_VERSION))
    row = {key: ended.ids[key] for key in _IDS if ended.ids.get(key) is not None} | counted | of_engines
    if trace is not None:
        row[attributes.RL_ROLLOUT_TRACE_ID] = trace
    row[attributes.RL_ROLLOUT_SECONDS] = round(ended.seconds, 6)
    if ended.ids.get(attributes.RL_LOOP_ITERATION) is None:
        # Its record may be made many seconds later.
        row[attributes.RL_ROLLOUT_END_TIME] = clock.now()
    row[attributes.RL_ROLLOUT_STATUS] = status_of(ended.error, trajectory.discard_reason)
    if caller_steps.is_evaluation():
        row[attributes.RL_ROLLOUT_EVALUATION] = True
    make, copy = partial(_of_one, row, trajectory), partial(_with_late, row, trajectory)
    trajectories.add_row(scope, source, ended.ids.get(attributes.RL_LOOP_ITERATION), make, copy)
    return counted


def _of_one(row: dict[str, Any], trajectory: OpenTrajectory) -> Columns:
    """Return the row for good."""
    with open_trajectory.adding:
        trajectory.is_recorded = True
        if trajectory.reward != row.get(attributes.RL_ROLLOUT_REWARD):
            lowest_rewards.known.add(trajectory.rewards, (trajectory.reward,))
        return _with_late(row, trajectory)


def is_suspect(trajectory: OpenTrajectory, *, failed: bool) -> bool:
    """Return whether something failed and the reward is the lowest: it may be the failure's, not the policy's."""
    has_failed = failed or trajectory.has_failures
    return has_failed and trajectory.reward == lowest_rewards.known.lowest(trajectory.rewards)


def _with_late(row: dict[str, Any], trajectory: OpenTrajectory) -> Columns:
    """Return the row, with what the program has said since its end."""
    with open_trajectory.adding:
        of_turns, sums = rewards_of_turns(trajectory.turn_rewards)
        may_not_count = is_suspect(trajectory, failed=row[attributes.RL_ROLLOUT_STATUS] in _NOT_FINISHED)
        late = {
            attributes.RL_ROLLOUT_REWARD: trajectory.reward,
            attributes.RL_ROLLOUT_TURN_REWARDS: of_turns or None,
            attributes.RL_ROLLOUT_CUMULATIVE_REWARDS: sums or None,
            attributes.RL_ROLLOUT_SUSPECT: may_not_count or None,
            attributes.RL_ROLLOUT_DISCARD_REASON: trajectory.discard_reason,
            attributes.RL_ROLLOUT_TRAINED: trajectory.trained,
            attributes.RL_ROLLOUT_ADVANTAGE: trajectory.advantage,
            attributes.RL_ROLLOUT_AGE: trajectory.age,
            attributes.RL_ROLLOUT_SUCCESS: trajectory.success,
            **side_calls.totals(trajectory.side_calls),
        }
        scores = {name: (value,) for name, value in trajectory.rewards.items()}
        metrics = {name: (value,) for name, value in trajectory.metrics.items()}
        weights, estimator = dict(trajectory.weights), trajectory.estimator
    row = {key: value for key, value in (row | late).items() if value is not None}
    is_discarded = attributes.RL_ROLLOUT_DISCARD_REASON in row
    if is_discarded and row[attributes.RL_ROLLOUT_STATUS] == RlRolloutStatusValues.FINISHED:
        row[attributes.RL_ROLLOUT_STATUS] = RlRolloutStatusValues.DISCARDED
    values = {key: (value,) for key, value in row.items()}
    return Columns(values, scores, weights, estimator, metrics=metrics)


def _add_versions(
    scope: Scope, trajectory: OpenTrajectory, counted: dict[str, Any], policy_version: object
) -> dict[str, Any]:
    """Add what the engines said of their weights, where they did; return the columns of the row with each of them."""
    if not trajectory.versions:
        return {}
    from otel_rl.training import engine_versions  # noqa: PLC0415 - few engines say versions

    of_policy, of_engines = engine_versions.of_trajectory(trajectory, policy_version)
    counted |= of_policy
    scope.record(metrics.RL_ROLLOUT_STALENESS, of_policy[attributes.RL_ROLLOUT_VERSIONS_BEHIND])
    return of_engines


def status_of(error: BaseException | str | None, discard_reason: str | None) -> str:
    """Return the outcome of a trajectory, as it is known at its end."""
    if error is None:
        return RlRolloutStatusValues.FINISHED if discard_reason is None else RlRolloutStatusValues.DISCARDED
    kind = error if isinstance(error, str) else type(error).__name__
    return RlRolloutStatusValues.CANCELLED if is_cancellation(kind) else RlRolloutStatusValues.FAILED


def _totals(trajectory: OpenTrajectory) -> dict[str, Any]:
    """Return the totals of a trajectory as attributes; counters that nothing was seen of are left out."""
    values: dict[str, Any] = {}
    if trajectory.model_calls:
        values[attributes.RL_ROLLOUT_TURNS] = trajectory.turns.number
        values[attributes.RL_ROLLOUT_MODEL_CALLS] = trajectory.model_calls
        values[attributes.RL_ROLLOUT_MODEL_ERRORS] = trajectory.model_errors
    if trajectory.model_calls or trajectory.tool_calls:
        values[attributes.RL_ROLLOUT_TOOL_CALLS] = calls = trajectory.tool_calls
        # The result of a call that nobody saw run need not say whether it failed.
        if trajectory.tool_errors or not calls or calls > trajectory.tool_matches.unknown:
            values[attributes.RL_ROLLOUT_TOOL_ERRORS] = trajectory.tool_errors
    known = {
        attributes.RL_ROLLOUT_INPUT_TOKENS: trajectory.input_tokens,
        attributes.RL_ROLLOUT_OUTPUT_TOKENS: trajectory.output_tokens,
        attributes.RL_ROLLOUT_STOP_REASON: trajectory.stop_reason and text(trajectory.stop_reason, MAXIMUM_LENGTH),
    }
    values |= {key: value for key, value in known.items() if value is not None}
    values |= side_calls.totals(trajectory.side_calls)
    if trajectory.tool_retries:
        values[attributes.RL_ROLLOUT_TOOL_RETRIES] = trajectory.tool_retries
    repeated_tool, repeated_calls = trajectory.longest_row
    if repeated_calls > 1:
        values[attributes.RL_ROLLOUT_REPEATED_CALLS] = repeated_calls
        values[attributes.RL_ROLLOUT_REPEATED_TOOL] = text(repeated_tool, MAXIMUM_LENGTH)
    if trajectory.span_errors:
        values[attributes.RL_ROLLOUT_SPAN_ERRORS] = trajectory.span_errors
    if trajectory.service_calls:
        values[attributes.RL_ROLLOUT_SERVICE_CALLS] = trajectory.service_calls
        values[attributes.RL_ROLLOUT_SERVICE_SECONDS] = round(trajectory.service_seconds, 6)
    if trajectory.success is not None:
        values[attributes.RL_ROLLOUT_SUCCESS] = trajectory.success
    return values
