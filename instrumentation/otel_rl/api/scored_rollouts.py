"""Which trajectory a score is for: the one around it, or one that is named, open or over, here or elsewhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.api import outcomes
from otel_rl.api.rollouts import OF_ONE_ROLLOUT
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, lifecycle, open_trajectory
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.correlation import baggage_context
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH, OpenTrajectory
from otel_rl.training import trajectory_changes, trajectory_shares
from otel_rl.training.trajectory_shares import TrajectoryName

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

    from otel_rl.telemetry.side_calls import SideCalls

#: Largest number that stands for an id, in digits.
_DIGITS = 64


class ScoredRollout:
    """A trajectory that takes scores.

    Attributes:
        context: of its scores, with the ids of no other rollout.
        identifier: its ``rl.rollout.id``, where that is not in ``context``.
    """

    __slots__ = ("_name", "_trajectory", "context", "identifier")

    def __init__(self, trajectory: OpenTrajectory | None, name: TrajectoryName | None, context: Context) -> None:
        self._trajectory = trajectory
        self._name = name
        self.context = context
        self.identifier = None if trajectory is None else trajectory.identifier

    @property
    def turn(self) -> int | None:
        """Number of the turn that goes on, where that is known."""
        return None if self._trajectory is None else self._trajectory.turn

    def add_reward(self, name: Any, score: float, weight: float, turn: int | None) -> None:
        """Add a score."""
        trajectory = self._trajectory
        if trajectory is not None and not trajectory.has_ended and trajectory.add_reward(name, score, weight, turn):
            return
        self._tell(lambda trajectory: trajectory.add_reward(name, score, weight, turn))

    def add_part(self, name: Any, score: float) -> None:
        """Add a part of a score."""
        self._tell(lambda trajectory: trajectory.add_part(name, score))

    def succeed(self, success: Any) -> None:
        """Say whether its task is done."""
        said = outcomes.success_of(success)
        if said:
            self._tell(partial(outcomes.put, said=said))

    def add_judge_calls(self, calls: SideCalls) -> None:
        """Add the calls of judges that its reward took after it."""
        self._tell(lambda trajectory: trajectory.add_side_calls(Role.JUDGE, calls))

    def _tell(self, say: Callable[[OpenTrajectory], object]) -> None:
        if self._name is not None:
            trajectory_shares.tell_by_name(self._name, say)
        elif self._trajectory is None or not trajectory_shares.tell(self._trajectory, say):
            return
        trajectory_changes.changed()


def around(context: Context) -> ScoredRollout | None:
    """Return the rollout that ``context`` is part of, also by its baggage only; None outside of all."""
    trajectory = open_trajectory.current(context)
    if trajectory is not None:
        return ScoredRollout(trajectory, None, context)
    identifier = baggage.get_baggage(attributes.RL_ROLLOUT_ID, context)
    if not isinstance(identifier, str) or not open_trajectory.is_elsewhere(context):
        return None
    # A request of the rollout, which this process serves.
    own = trace_api.get_current_span(context).get_span_context()
    name = TrajectoryName(trace_api.format_trace_id(own.trace_id) if own.is_valid else None, identifier)
    return ScoredRollout(None, name, context)


def of(trajectory: OpenTrajectory) -> ScoredRollout:
    """Return the rollout of this process that ``trajectory`` counts for, open or over."""
    identifier, trace = trajectory.names
    if trajectory.forks != lifecycle.forks:
        return ScoredRollout(None, TrajectoryName(trace, identifier), _context_of(identifier))
    return ScoredRollout(trajectory, None, _context_of(identifier))


def named(rollout: Any) -> ScoredRollout | None:
    """Return the rollout with this id, of this process or another; None, counted, for what is no id."""
    if isinstance(rollout, bool) or not isinstance(rollout, str | int):
        drops.count(Signal.LOGS, "unsupported_type")
        return None
    identifier = rollout if isinstance(rollout, str) else str(rollout)[:_DIGITS]
    return by_name(TrajectoryName(None, text(identifier, MAXIMUM_LENGTH)))


def by_name(name: TrajectoryName) -> ScoredRollout:
    """Return the rollout that this names, of this process or another."""
    trajectory = None if name.rollout is None else open_trajectory.find(name.rollout)
    if trajectory is not None and name.trace in (None, trajectory.names[1]):
        return of(trajectory)
    return ScoredRollout(None, name, _context_of(name.rollout, name.sample))


def _context_of(identifier: str | None, sample: str | None = None) -> Context:
    context = get_current()
    if baggage.get_baggage(attributes.RL_ROLLOUT_ID, context) == identifier is not None:
        return context
    for key in OF_ONE_ROLLOUT:
        context = baggage.remove_baggage(key, context)
    return baggage_context({attributes.RL_ROLLOUT_ID: identifier, attributes.RL_SAMPLE_ID: sample}, context)
