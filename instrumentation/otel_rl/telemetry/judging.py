"""Whether a reward is being computed here: model calls inside judge, and are no turns of the trajectory around them.

A process that was started inside of a reward or a tool, and not forked, has the role of that from its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.context import create_key, get_value, set_value

from otel_rl.telemetry import open_trajectory
from otel_rl.telemetry.side_calls import SideCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

_KEY = create_key("otel_rl.judging")
_FROM_PARENT = create_key("otel_rl.role_from_parent")


class Judging:
    """A reward that is being computed.

    Attributes:
        trajectory: the one that it is computed in; of another one that begins inside it says nothing.
        has_ended: a task that outlives it judges nothing.
        calls: those of judges, of a reward outside of all trajectories; None before the first.
    """

    __slots__ = ("_join", "calls", "has_ended", "trajectory")

    def __init__(self, trajectory: OpenTrajectory | None) -> None:
        self.trajectory = trajectory
        self.has_ended = False
        self.calls: SideCalls | None = None
        self._join: Callable[[SideCalls], object] | None = None

    def call_ended(self, tokens: tuple[int | None, int | None], *, failed: bool) -> None:
        """Count a judge's call; after :meth:`join` it joins at once, as a stream that ends with its garbage."""
        calls = self.calls or SideCalls()
        calls.ended(tokens, failed=failed)
        self.calls = calls
        if self._join is not None:
            self.join(self._join)

    def join(self, join: Callable[[SideCalls], object]) -> None:
        """Let the calls ``join`` the trajectory whose reward this was, those that are still to end too."""
        self._join = join
        calls, self.calls = self.calls, None
        if calls is not None:
            join(calls)


class RoleFromParent(NamedTuple):
    """The role of model calls that this process makes in its share of a trajectory, unless something here says more."""

    role: str
    trajectory: OpenTrajectory


def begin(context: Context) -> tuple[Judging, Context]:
    """Begin to judge in a context made of ``context``."""
    judging = Judging(open_trajectory.current(context))
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
