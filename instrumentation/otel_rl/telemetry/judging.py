"""Whether a reward is being computed here: model calls inside judge, and are no turns of the trajectory around them.

A process that was started inside of a reward or a tool, and not forked, has the role of that from its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.context import create_key, get_value, set_value

from otel_rl.semconv import attributes
from otel_rl.telemetry import open_trajectory
from otel_rl.telemetry.side_calls import SideCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: On the span of a reward, and of its step: calls, failed ones, input and output tokens.
_COLUMNS = (
    attributes.RL_REWARD_JUDGE_CALLS,
    attributes.RL_REWARD_JUDGE_ERRORS,
    attributes.RL_REWARD_JUDGE_INPUT_TOKENS,
    attributes.RL_REWARD_JUDGE_OUTPUT_TOKENS,
)
_KEY = create_key("otel_rl.judging")
_FROM_PARENT = create_key("otel_rl.role_from_parent")


class Judging:
    """A reward that is being computed.

    Attributes:
        trajectory: the one that it is computed in; of another one that begins inside it says nothing.
        has_ended: a task that outlives it judges nothing.
        calls: those of judges, of a reward outside of all trajectories; None before the first.
        seconds: the sum of their durations.
        around: the reward outside of all trajectories that it is a part of, as a function is of a trainer's phase.
    """

    __slots__ = ("_join", "around", "calls", "has_ended", "seconds", "trajectory")

    def __init__(self, trajectory: OpenTrajectory | None, around: Judging | None = None) -> None:
        self.trajectory = trajectory
        self.around = around
        self.seconds = 0.0
        self.has_ended = False
        self.calls: SideCalls | None = None
        self._join: Callable[[SideCalls], object] | None = None

    def call_ended(self, tokens: tuple[int | None, int | None], seconds: float, *, failed: bool) -> None:
        """Count a judge's call of that many ``seconds``.

        After :meth:`join` it joins at once, as a stream that ends with its garbage.
        """
        calls = self.calls or SideCalls()
        calls.ended(tokens, failed=failed)
        self.calls = calls
        self.seconds += seconds
        if self._join is not None:
            self.join(self._join)

    def join(self, join: Callable[[SideCalls], object]) -> None:
        """Let the calls ``join`` the trajectory whose reward this was, those that are still to end too."""
        self._join = join
        calls, self.calls, self.seconds = self.calls, None, 0.0
        if calls is not None:
            join(calls)

    def totals(self) -> dict[str, Any]:
        """Return what judges were asked that joins no trajectory, as attributes; nothing where there was no call.

        A reward around this one has it, too.
        """
        calls = self.calls
        if calls is None:
            return {}
        if self.around is not None:
            before = self.around.calls = self.around.calls or SideCalls()
            before.add(calls)
            self.around.seconds += self.seconds
        numbers = calls.calls, calls.errors, calls.input_tokens, calls.output_tokens
        known = {name: number for name, number in zip(_COLUMNS, numbers, strict=True) if number is not None}
        return {**known, attributes.RL_REWARD_JUDGE_SECONDS: round(self.seconds, 6)}


class RoleFromParent(NamedTuple):
    """The role of model calls that this process makes in its share of a trajectory, unless something here says more."""

    role: str
    trajectory: OpenTrajectory


def begin(context: Context) -> tuple[Judging, Context]:
    """Begin to judge in a context made of ``context``."""
    trajectory = open_trajectory.current(context)
    judging = Judging(trajectory, outside(context) if trajectory is None else None)
    return judging, set_value(_KEY, judging, context)


def is_inside(context: Context, trajectory: OpenTrajectory | None) -> bool:
    """Return whether what runs in ``context`` judges ``trajectory``, or outside of all where that is None."""
    judging = get_value(_KEY, context)
    return isinstance(judging, Judging) and not judging.has_ended and judging.trajectory is trajectory


def with_role_from_parent(role: str, trajectory: OpenTrajectory, context: Context) -> Context:
    """Return a context, made of ``context``, in which calls of ``trajectory`` have the role that the parent says."""
    return set_value(_FROM_PARENT, RoleFromParent(role, trajectory), context)


def role_from_parent(context: Context, trajectory: OpenTrajectory) -> str | None:
    """Return the role that the parent of this process says of calls of ``trajectory``; None where it says none."""
    known = get_value(_FROM_PARENT, context)
    return known.role if isinstance(known, RoleFromParent) and known.trajectory is trajectory else None


def outside(context: Context) -> Judging | None:
    """Return the reward that is computed in ``context`` outside of all trajectories."""
    judging = get_value(_KEY, context)
    is_outside = isinstance(judging, Judging) and not judging.has_ended and judging.trajectory is None
    return judging if is_outside else None  # type: ignore[return-value]
