"""Whose a model call is: the policy's, a judge's, or a tool's.

Only the policy's calls are turns of a trajectory. A trajectory that begins inside of a reward or a tool, as a nested
rollout does, has a policy of its own. A child process goes on with the role of the call that its parent would make.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.telemetry import judging
from otel_rl.tools import open_tools

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.inference.ownership import ParentCall
    from otel_rl.telemetry.open_trajectory import OpenTrajectory


def role_of(
    context: Context, trajectory: OpenTrajectory | None, model: object, around: ParentCall | None = None
) -> str | None:
    """Return the role of a call in ``context``, which is part of ``trajectory``; None outside of all, where unknown.

    A reward is judged as a whole, with the models of its tools. ``around`` is the call that the program has marked
    around this one, of whose model it is.
    """
    role = _role(context, trajectory, model)
    return around.role if around is not None and role == Role.POLICY else role


def _role(context: Context, trajectory: OpenTrajectory | None, model: object) -> str | None:
    judges = settings.current().judge_models
    if judges and isinstance(model, str) and _pattern(judges).fullmatch(model):
        return Role.JUDGE
    return _of_place(context, trajectory) or (None if trajectory is None else Role.POLICY)


def _of_place(context: Context, trajectory: OpenTrajectory | None) -> str | None:
    """Return the role by what runs in ``context``, here or in the parent of this process; None where nothing says."""
    if judging.is_inside(context, trajectory):
        return Role.JUDGE
    from_parent = None
    if trajectory is not None:
        from_parent = judging.role_from_parent(context, trajectory)
        if from_parent is None and trajectory.forked_from is not None:
            # What ran at the fork is still in the context, as the parent's.
            from_parent = _of_place(context, trajectory.forked_from)
    tool = open_tools.here(context)
    if from_parent != Role.JUDGE and tool is not None and tool.trajectory is trajectory:
        return Role.TOOL
    return from_parent


@lru_cache(maxsize=4)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches one of ``names``, in which a ``*`` stands for anything."""
    return re.compile("|".join(".*".join(map(re.escape, name.split("*"))) for name in names), re.DOTALL)
