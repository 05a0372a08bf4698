"""Wrappers of vectors of environments whose single ones this process does not step."""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from otel_rl.core.guard import guard
from otel_rl.instrumentors.gymnasium.followed import Failed, FollowedClasses
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.instrumentors.vector_episodes import VectorEpisodes, success_of
from otel_rl.training import environments

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]


class _Episodes(VectorEpisodes):
    """Those of a vector of Gymnasium."""

    __slots__ = ()

    def add_step(self, result: Any) -> None:
        """Take in what a step returned."""
        _, rewards, terminated, truncated, info = result
        self.add(rewards, terminated, partial(success_of, info), truncated=truncated)


class _Vectors(WeakKeyDictionary[Any, _Episodes]):
    """Pickled as an empty dictionary, with the step of a class that is pickled by value."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()


_vectors = _Vectors()
#: The step after the end of an episode only resets; gymnasium 1.0 knows no other mode, and does not name it.
_NEXT_STEP = (None, "NextStep")


def patch_vector_env(module: ModuleType, patches: Patches) -> None:
    """Follow vectors that are one environment of their own, as that of CartPole: from the first reset on."""
    patches.on_restore(_followed.restore)
    patches.on_restore(_vectors.clear)
    patches.observe(module, "VectorEnv.reset", before=partial(_reset_begins, patches, module.VectorEnv))


def _worker_begins(*_: Any, **__: Any) -> None:
    environments.leave_to_parent()


def _reset_begins(patches: Patches, base: type, vector: Any, *_: Any, **__: Any) -> None:
    if _followed.follow(vector, base, patches) is not None:
        _vector_begins(vector)


def _vector_begins(vector: Any, *_: Any, **__: Any) -> None:
    if not environments.is_followed():
        return
    episodes = _vectors.get(vector)
    if episodes is not None:
        episodes.begin()
        return
    mode = getattr((vector.metadata or {}).get("autoreset_mode"), "value", None)
    _vectors[vector] = _Episodes(environments.name_of(vector), vector.num_envs, skips_reset=mode in _NEXT_STEP)


def _stepped(result: Any, vector: Any, *_: Any, **__: Any) -> None:
    episodes = _vectors.get(vector)
    if episodes is not None:
        episodes.add_step(result)


def _counted(_: type, original: Function) -> Function:
    """Return a step with what it adds to the open episodes; pickled without us, as that of a single environment."""
    find, failed = _vectors.get, Failed(guard("gymnasium.vector_step"))

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            episodes = find(args[0])
            if episodes is not None:
                episodes.add_step(result)
        except Exception as ours:  # noqa: BLE001 - counted
            failed(ours)
        return result

    return step


#: Classes whose ``step`` is ours.
_followed = FollowedClasses(_counted)
#: The vector whose environments are in processes of their own, which do not count.
patch_async_vector_env = together(
    observing("_async_worker", before=_worker_begins, required=False),
    observing("AsyncVectorEnv.reset_wait", before=_vector_begins, required=False),
    observing("AsyncVectorEnv.step_wait", after=_stepped),
)
