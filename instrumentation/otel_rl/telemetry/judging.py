"""Whether a reward is being computed here: model calls inside judge, and are no turns of the trajectory around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import create_key, get_value, set_value

from otel_rl.telemetry import open_trajectory

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

_KEY = create_key("otel_rl.judging")


class Judging:
    """A reward that is being computed.

    Attributes:
        trajectory: the one that it is computed in; of another one that begins inside it says nothing.
        has_ended: a task that outlives it judges nothing.
    """

    __slots__ = ("has_ended", "trajectory")

    def __init__(self, trajectory: OpenTrajectory | None) -> None:
        self.trajectory = trajectory
        self.has_ended = False


def begin(context: Context) -> tuple[Judging, Context]:
    """Begin to judge in a context made of ``context``."""
    judging = Judging(open_trajectory.current(context))
    return judging, set_value(_KEY, judging, context)


def is_inside(context: Context, trajectory: OpenTrajectory | None) -> bool:
    """Return whether what runs in ``context`` judges ``trajectory``, or outside of all where that is None."""
    judging = get_value(_KEY, context)
    return isinstance(judging, Judging) and not judging.has_ended and judging.trajectory is trajectory
