"""``MultiTurnEnv``: the environment asks the model, runs the tools and is scored afterwards, often with its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.api import scores
from otel_rl.api.rollouts import Rollout
from otel_rl.instrumentors.by_object import ByObject
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.instrumentors.verifiers.agents import scope
from otel_rl.tools import calls
from otel_rl.tools.calls import ToolCall
from otel_rl.training import environments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: State of the library -> its environment's name, and our trajectory.
_rollouts: ByObject[tuple[str, OpenTrajectory]] = ByObject()


def _rollout_begins(environment: Any, input: Any, *_: Any, **__: Any) -> tuple[str, Rollout]:  # noqa: A002 - name of the library
    name, example = _name_of(environment), input.get("example_id")
    return name, Rollout(None, example, example, None, None, None, False, None, environment=name)


def _name_of(environment: Any) -> str:
    return str(getattr(environment, "env_id", None) or type(environment).__name__)


def _rollout_ended(begun: tuple[str, Rollout], state: Any, error: BaseException | None) -> None:
    name, rollout = begun
    if state is None:
        rollout.end(error, None)
        return
    _rollouts.put(state, (name, rollout.trajectory))
    # The last answer, which may not be parsed yet, has a reason too.
    rollout.trajectory.finish_unparsed()
    rollout.trajectory.stop_reason = state.get("stop_condition")
    rollout.end(state.get("error"), None)


def _scored(state: Any, environment: Any, *_: Any, **__: Any) -> None:
    _group_scored([state], environment)


def _group_scored(states: Sequence[Any], environment: Any, *_: Any, **__: Any) -> None:
    rubric = environment.rubric
    weights = dict(zip(rubric._get_reward_func_names(), rubric._get_reward_weights(), strict=False))  # noqa: SLF001 - as the library does
    for state in states:
        kept, metrics = _rollouts.get(state), state.get("metrics")
        if kept is not None and metrics:
            name, trajectory = kept
            _judge(trajectory, metrics, weights)
            environments.count_episode(name, state["reward"], len(state["trajectory"]), None)


def _judge(trajectory: OpenTrajectory, metrics: Mapping[str, float], weights: Mapping[str, float]) -> None:
    """Add what the functions of a rubric returned; one without a weight is a metric."""
    for name, value in metrics.items():
        weight = weights.get(name, 0.0)
        if weight:
            scores.reward(name, value, None, None, None, weight, None, None, trajectory)
        else:
            trajectory.add_metric(name, value)


def _tool_begins(
    environment: Any, tool_name: str, tool_args: Any, tool_call_id: str | None = None, *_: Any, **__: Any
) -> ToolCall | None:
    if tool_name not in environment.tool_map:
        calls.record_unknown(scope, tool_name, tool_call_id)
        return None
    return ToolCall(scope, tool_name, tool_call_id, arguments=tool_args).start()


def _tool_ended(call: ToolCall, message: Any, error: BaseException | None) -> None:
    call.ended(getattr(message, "content", message), error)


patch_multiturn = observing("MultiTurnEnv.rollout", begin=_rollout_begins, end=_rollout_ended)
#: An environment keeps the scores of a rollout or a group in the states.
patch_environment = together(
    observing("Environment._run_rollout_state", after=_scored),
    observing("Environment._run_group_states", after=_group_scored),
)
#: The tools that an environment runs itself.
patch_tools = observing("ToolEnv.call_tool", begin=_tool_begins, end=_tool_ended)
