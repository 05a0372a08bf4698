"""What this process has to say of trajectories whose rows other records have, until it is recorded.

Two kinds. What the program says of a rollout whose row is made, or of one by its id, collects under what names it
(:func:`tell`). A child process of a rollout, forked or started with its context, has a share of its own: an open
trajectory in its context, which calls, tools and scores find as in the parent (:func:`in_child`).

At most :data:`MAXIMUM` trajectories wait. Further ones are counted as dropped (``trajectory_limit``) and in the record.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, judging, lifecycle, open_trajectory, side_calls
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.context import attach
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH, OpenTrajectory
from otel_rl.training.trajectory_columns import rewards_of_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context

#: Most trajectories that wait for a record of changes, of either kind.
MAXIMUM = 8192
#: Why a change is dropped.
LIMIT = "trajectory_limit"
#: Roles that a parent hands on.
_SIDES = (Role.JUDGE, Role.TOOL)


class TrajectoryName(NamedTuple):
    """What finds the row of a trajectory: the first of these that is known."""

    trace: str | None
    rollout: str | None
    sample: str | None = None


class TrajectoryChange(NamedTuple):
    """What is new of one trajectory: columns of its row, its scores and values by name, weights that are not 1."""

    columns: Mapping[str, Any]
    scores: Mapping[str, float]
    weights: Mapping[str, float | None]
    metrics: Mapping[str, float]
    estimator: str | None


class TrajectoryShare(OpenTrajectory):
    """The part of a trajectory that this process adds to its row."""

    __slots__ = ("_counted", "_is_child", "_said", "_turns_before", "name", "policy_version", "seen")

    def __init__(self, name: TrajectoryName, *, is_child: bool, turns_before: int | None = None) -> None:
        super().__init__(name.rollout)
        self.name = name
        #: Nothing counts by its context in one that is only told of.
        self.has_ended = not is_child
        self._is_child = is_child
        #: Turns that a forked child has found: the last of them goes on until it makes its own. The parent and other
        #: children count on, too, so those have no number in the row; another child does not know of any.
        self._turns_before = turns_before
        #: The trainer's, as the rollout began.
        self.policy_version: object = None
        self._counted: dict[str, float] = {}
        self._said: dict[str, Any] = {}
        #: Counts as they were when somebody last looked whether it goes on.
        self.seen: dict[str, float] = {}

    @property
    def turn(self) -> int | None:
        """Number of the turn that goes on, where it is known."""
        return None if super().turn else self._turns_before or None

    @property
    def has_news(self) -> bool:
        """Whether something is to be recorded."""
        has_scores = self.reward is not None or bool(self.metrics or self.rewards)
        return has_scores or self.counts() != self._counted or self._judgements() != self._said

    def _judgements(self) -> dict[str, Any]:
        """Return what the program has judged: each later value replaces the one before."""
        said = {
            attributes.RL_ROLLOUT_SUCCESS: self.success,
            attributes.RL_ROLLOUT_TRAINED: self.trained,
            attributes.RL_ROLLOUT_ADVANTAGE: self.advantage,
            attributes.RL_ROLLOUT_AGE: self.age,
            attributes.RL_ROLLOUT_DISCARD_REASON: self.discard_reason,
        }
        return {key: value for key, value in said.items() if value is not None}

    def counts(self) -> dict[str, float]:
        """Return what only counts up, since the beginning."""
        if not self._is_child:
            return side_calls.totals(self.side_calls)
        counted: dict[str, float] = {
            attributes.RL_ROLLOUT_TURNS: self.turns.number,
            attributes.RL_ROLLOUT_MODEL_CALLS: self.model_calls,
            attributes.RL_ROLLOUT_MODEL_ERRORS: self.model_errors,
            attributes.RL_ROLLOUT_INPUT_TOKENS: self.input_tokens or 0,
            attributes.RL_ROLLOUT_OUTPUT_TOKENS: self.output_tokens or 0,
            attributes.RL_ROLLOUT_TOOL_CALLS: self.tool_calls,
            attributes.RL_ROLLOUT_TOOL_ERRORS: self.tool_errors,
            attributes.RL_ROLLOUT_TOOL_RETRIES: self.tool_retries,
            attributes.RL_ROLLOUT_SPAN_ERRORS: self.span_errors,
            attributes.RL_ROLLOUT_SERVICE_CALLS: self.service_calls,
            attributes.RL_ROLLOUT_SERVICE_SECONDS: round(self.service_seconds, 6),
            attributes.RL_ROLLOUT_CHILD_CALLS: self.model_calls
            + self.tool_calls
            + sum(side.calls for side in self.side_calls.values()),
            **side_calls.totals(self.side_calls),
        }
        return {key: value for key, value in counted.items() if value}

    def take(self) -> TrajectoryChange | None:
        """Take what is new since the last time; None for nothing. Under :data:`open_trajectory.adding`."""
        # Counting takes no lock: these go on, and what is new of them is the difference.
        counts, before = self.counts(), self._counted
        columns: dict[str, Any] = {key: value - before.get(key, 0) for key, value in counts.items()}
        columns = {key: value for key, value in columns.items() if value}
        self._counted = counts
        if columns:
            columns |= self._of_answers()
        said = self._judgements()
        columns |= {key: value for key, value in said.items() if value != self._said.get(key)}
        self._said = said
        if self.reward is not None:
            columns[attributes.RL_ROLLOUT_REWARD] = self.reward
        if self.turn_rewards:
            columns[attributes.RL_ROLLOUT_TURN_REWARDS], _ = rewards_of_turns(self.turn_rewards)
        scores, weights, metrics = self.rewards, self.weights, self.metrics
        self.reward, self.turn_rewards, self.rewards, self.weights, self.metrics = None, {}, {}, {}, {}
        if not (columns or scores or metrics):
            return None
        columns[attributes.RL_ROLLOUT_ID] = self.name.rollout
        columns[attributes.RL_ROLLOUT_TRACE_ID] = self.name.trace
        columns[attributes.RL_SAMPLE_ID] = self.name.sample
        return TrajectoryChange(columns, scores, weights, metrics, self.estimator)

    def _of_answers(self) -> dict[str, Any]:
        """Return what the answers so far have said, which readers join and do not add."""
        reason = self.stop_reason
        found: dict[str, Any] = {attributes.RL_ROLLOUT_STOP_REASON: reason and text(reason, MAXIMUM_LENGTH)}
        if self.versions:
            from otel_rl.training import engine_versions  # noqa: PLC0415 - few engines say versions

            of_policy, of_engines = engine_versions.of_trajectory(self, self.policy_version)
            found |= of_policy | of_engines
            # A child knows few versions: that it knows of no newer one does not say that there is none.
            behind, lags = attributes.RL_ROLLOUT_VERSIONS_BEHIND, attributes.RL_ROLLOUT_ENGINE_VERSIONS_BEHIND
            found |= {behind: found.get(behind) or None, lags: [lag or None for lag in found.get(lags, ())]}
            if not any(found[lags]):
                del found[lags]
        return {key: value for key, value in found.items() if value is not None}


#: What the program has said of trajectories, by what names them.
_told: dict[TrajectoryName, TrajectoryShare] = {}
#: Shares of this process as a child, by what names the trajectory.
_of_child: dict[TrajectoryName, TrajectoryShare] = {}
#: Changes that had no room, since the last record.
_left_out = 0
#: Whether a score has come after the row of its trajectory.
_has_later_scores = False


def tell(trajectory: OpenTrajectory, say: Callable[[OpenTrajectory], object]) -> bool:
    """``say`` something of ``trajectory``: before its row is made to itself, then to a share of it.

    Returns whether the latter. ``say`` must run no code of the program.
    """
    with open_trajectory.adding:
        if not trajectory.is_recorded and trajectory.forks == lifecycle.forks:
            say(trajectory)
            return False
        rollout, trace = trajectory.names
        tell_by_name(TrajectoryName(trace, rollout), say)
        return True


def tell_by_name(name: TrajectoryName, say: Callable[[OpenTrajectory], object]) -> None:
    """``say`` something of a trajectory that another process has, or that is only known by ``name``."""
    global _left_out
    with open_trajectory.adding:
        share = _told.get(name)
        if share is None:
            if len(_told) >= MAXIMUM:
                _left_out += 1
                drops.count(Signal.LOGS, LIMIT)
                return
            share = _told[name] = TrajectoryShare(name, is_child=False)
        say(share)


def in_child(context: Context, *, is_forked: bool) -> Context:
    """Return ``context``, which this process has of the parent's rollout, with a share of that as its trajectory.

    The same where ``context`` belongs to no rollout, or to one that has ended.
    """
    global _left_out
    parents = open_trajectory.current(context) if is_forked else None
    identifier = baggage.get_baggage(attributes.RL_ROLLOUT_ID, context)
    if not isinstance(identifier, str):
        identifier = None if parents is None else parents.identifier
    own = trace_api.get_current_span(context).get_span_context()
    name = TrajectoryName(trace_api.format_trace_id(own.trace_id) if own.is_valid else None, identifier)
    if name.rollout is None or (is_forked and open_trajectory.has_outlived(context)):
        return context
    with open_trajectory.adding:
        share = _of_child.get(name)
        if share is None:
            if len(_of_child) >= MAXIMUM:
                _drop_unused()
            if len(_of_child) >= MAXIMUM:
                _left_out += 1
                drops.count(Signal.LOGS, LIMIT)
                return context
            turns = None if parents is None else parents.turn or 0
            share = _of_child[name] = TrajectoryShare(name, is_child=True, turns_before=turns)
            share.forked_from = parents
            share.policy_version = baggage.get_baggage(attributes.RL_POLICY_VERSION, context)
    if not is_forked:
        # Also where it is the policy's: a call for a worker that was forked inside of a judge may be anything.
        role = baggage.get_baggage(attributes.RL_INFERENCE_ROLE, context)
        context = baggage.remove_baggage(attributes.RL_INFERENCE_ROLE, context)
        context = judging.with_role_from_parent(role if role in _SIDES else Role.POLICY, share, context)
    return open_trajectory.context_with(share, context)


def join_in_child(*, is_forked: bool) -> bool:
    """Make the share of this process current in this thread for good, where it was started inside a rollout."""
    context = get_current()
    joined = in_child(context, is_forked=is_forked)
    if joined is context:
        return False
    attach(joined)
    return True


def has_later_scores() -> bool:
    """Whether this process has scored a trajectory after its row was made: a row without a score may get one."""
    return _has_later_scores or any(share.rewards for share in list(_told.values()))


def waiting() -> int:
    """How many trajectories the program has said something of."""
    return len(_told)


def has_news(*, quiet: bool) -> bool:
    """Return whether something is to be recorded; ``quiet``: of a child only where nothing was added lately."""
    if _told:
        return True
    found = False
    with open_trajectory.adding:
        _drop_unused()
    for share in list(_of_child.values()):
        counts = share.counts()
        found = found or (share.has_news and (not quiet or counts == share.seen))
        share.seen = counts
    return found


def take() -> tuple[list[TrajectoryChange], int]:
    """Take all that is new, and how many changes had no room since the last time."""
    global _told, _left_out, _has_later_scores
    with open_trajectory.adding:
        _has_later_scores = has_later_scores()
        shares = [*_told.values(), *_of_child.values()]
        _told = {}
        changes = [change for share in shares if (change := share.take()) is not None]
        left_out, _left_out = _left_out, 0
        shares.clear()
        _drop_unused()
    return changes, left_out


def _drop_unused() -> None:
    """Drop the shares that no context of the process has any more and that have nothing new: a service has many."""
    kept = {name: share for name, share in _of_child.items() if share.has_news}
    references = [weakref.ref(share) for share in _of_child.values()]
    _of_child.clear()
    for reference in references:
        share = reference()
        if share is not None:
            kept[share.name] = share
    _of_child.update(kept)


def forget() -> None:
    """Forget the parent's: a forked child has said nothing yet."""
    global _told, _left_out, _has_later_scores
    _told, _left_out, _has_later_scores = {}, 0, False
    _of_child.clear()
