"""Wrappers of single environments. Their step is hot: one of a small environment takes some microseconds."""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.instrumentors.gymnasium.followed import Failed, FollowedClasses
from otel_rl.training import environments

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]

_STEP, _RESET = guard("gymnasium.step"), guard("gymnasium.reset")


def patch_core(module: ModuleType, patches: Patches) -> None:
    """Follow each class of environments from its first reset on, which calls that of the base class."""
    patches.on_restore(_followed.restore)
    patches.replace(module, "Env.reset", partial(_resetting, patches, module.Env), required=True)


def patch_common(module: ModuleType, patches: Patches) -> None:
    """Follow environments whose reset does not call the base class: ``make`` puts this wrapper around all."""
    base = next(kind for kind in module.OrderEnforcing.__mro__ if kind.__name__ == "Env")
    patches.observe(
        module, "OrderEnforcing.reset", after=lambda _, wrapper, **__: _reset(patches, base, wrapper.unwrapped)
    )


def _resetting(patches: Patches, base: type, original: Function) -> Function:
    @functools.wraps(original)
    def reset(*args: Any, **kwargs: Any) -> Any:
        try:
            _reset(patches, base, args[0])
        except Exception as ours:  # noqa: BLE001 - counted
            _RESET.handle(ours)
        return original(*args, **kwargs)

    return reset


def _reset(patches: Patches, base: type, environment: Any) -> None:
    episode = environments.open_episodes.get(id(environment))
    if episode is not None:
        episode.end()
        return
    owner = _followed.follow(environment, base, patches)
    if owner is not None:
        environments.began(environment, owner)


def _counted(owner: type, original: Function) -> Function:
    """Return the step of the class ``owner`` with what it adds to the open episode; all in one frame, which is hot.

    cloudpickle takes a class of ``__main__`` by value, and this function with it. So the function refers to no global
    of this module, and what it closes over is pickled without us: a copy only calls the original.
    """
    find, failed, success = environments.open_episodes.get, Failed(_STEP), environments.SUCCESS

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            episode = find(id(args[0]))
            if episode is None or episode.owner is not owner:
                return result
            _, reward, terminated, truncated, info = result
            episode.length += 1
            if type(reward) is float:
                episode.gain += reward
            else:
                episode.add_reward(reward)
            if success in info:
                episode.take_success(info[success])
            if terminated is not False or truncated is not False:
                episode.end_if(terminated, truncated)
        except Exception as ours:  # noqa: BLE001 - counted
            failed(ours)
        return result

    return step


#: Classes whose ``step`` is ours.
_followed = FollowedClasses(_counted)
