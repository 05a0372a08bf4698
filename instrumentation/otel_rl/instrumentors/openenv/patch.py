"""``EnvClient``: its coroutines, which the synchronous client runs too, in the context of the caller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.patch_functions import observing
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import Scope, open_trajectory
from otel_rl.telemetry.attribute_values import number
from otel_rl.tools.calls import ToolCall
from otel_rl.training import environments

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    #: The client, the name of its environment, and the call.
    SentRequest = tuple[Any, str, ToolCall]

scope = Scope("openenv")


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Follow resets and steps; newer versions have coroutines with names of their own for both."""
    suffix, prefix = ("_async", "_") if hasattr(module.EnvClient, "_step_async") else ("", "")
    observing(f"EnvClient.{prefix}reset{suffix}", begin=_resets, end=_has_reset)(module, patches)
    observing(f"EnvClient.{prefix}step{suffix}", begin=_steps, end=_has_stepped)(module, patches)


def _resets(client: Any, /, **arguments: Any) -> SentRequest:
    return _request(client, None, "reset", arguments)


def _steps(client: Any, /, action: Any, **_: Any) -> SentRequest:
    return _request(client, getattr(action, "tool_name", None), "step", action)


def _request(client: Any, tool: str | None, kind: str, arguments: Any) -> SentRequest:
    name = environments.name_of(client)
    return client, name, ToolCall(scope, tool or f"{name}.{kind}", arguments=arguments).start()


def _has_reset(request: SentRequest, _: Any, error: BaseException | None) -> None:
    client, _name, call = request
    call.end(error)
    if error is None and environments.is_followed():
        episode = environments.open_episodes.get(id(client))
        if episode is None:
            environments.began(client, type(client))
        else:
            episode.end()


def _has_stepped(request: SentRequest, result: Any, error: BaseException | None) -> None:
    request[2].ended(result, error, partial(_note, *request[:2]))


def _note(client: Any, name: str, call: ToolCall, result: Any) -> None:
    if getattr(result.observation, "error", None) is not None:
        call.fail(ErrorTypeValues.OTHER)
    call.result(result.observation)
    reward, trajectory = number(result.reward), open_trajectory.current()
    if reward is not None and trajectory is not None:
        trajectory.add_metric(f"{name}.return", reward)
    episode = environments.open_episodes.get(id(client))
    if episode is not None:
        episode.length += 1
        episode.add_reward(result.reward)
        episode.end_if(result.done)
