"""Wrappers of vectors of environments whose single ones this process does not step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from otel_rl.training import environments
from otel_rl.training.vector_episodes import VectorEpisodes, success_of

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_vectors: WeakKeyDictionary[Any, VectorEpisodes] = WeakKeyDictionary()
#: Classes whose ``step`` is ours.
_followed: set[type] = set()
#: The step after the end of an episode only resets; gymnasium 1.0 knows no other mode, and does not name it.
_NEXT_STEP = (None, "NextStep")


def patch_vector_env(module: ModuleType, patches: Patches) -> None:
    """Follow vectors that are one environment of their own, as that of CartPole: from the first reset on."""
    patches.on_restore(_followed.clear)
    patches.on_restore(_vectors.clear)
    patches.observe(module, "VectorEnv.reset", before=partial(_reset_begins, patches, module.VectorEnv))


def patch_async_vector_env(module: ModuleType, patches: Patches) -> None:
    """Follow the vector whose environments are in processes of their own, which do not count."""
    patches.observe(module, "_async_worker", before=_worker_begins)
    patches.observe(module, "AsyncVectorEnv.reset_wait", before=_vector_begins)
    patches.observe(module, "AsyncVectorEnv.step_wait", after=_stepped, required=True)


def _worker_begins(*_: Any, **__: Any) -> None:
    environments.leave_to_parent()


def _reset_begins(patches: Patches, base: type, vector: Any, *_: Any, **__: Any) -> None:
    owner = next((one for one in type(vector).__mro__ if "step" in vars(one)), base)
    if owner is base or not environments.is_followed():
        return
    if owner not in _followed:
        _followed.add(owner)
        patches.observe(owner, "step", after=_stepped)
    _vector_begins(vector)


def _vector_begins(vector: Any, *_: Any, **__: Any) -> None:
    if not environments.is_followed():
        return
    episodes = _vectors.get(vector)
    if episodes is not None:
        episodes.begin()
        return
    mode = getattr((vector.metadata or {}).get("autoreset_mode"), "value", None)
    _vectors[vector] = VectorEpisodes(environments.name_of(vector), vector.num_envs, skips_reset=mode in _NEXT_STEP)


def _stepped(result: Any, vector: Any, *_: Any, **__: Any) -> None:
    episodes = _vectors.get(vector)
    if episodes is not None:
        _, rewards, terminated, truncated, info = result
        episodes.add(rewards, terminated, partial(success_of, info), truncated=truncated)
