"""Wrappers of Stable-Baselines3."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from otel_rl.instrumentors.vector_episodes import VectorEpisodes
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope
from otel_rl.training import environments, systems
from otel_rl.training.scalars import Source, sink
from otel_rl.training.trainer_loop import in_phase

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

SYSTEM = "stable_baselines3"
#: The mean entropy of the policy times -1 (`PPO.train`, `A2C.train`); the same key of others is the entropy itself.
_NEGATIVE_ENTROPY = "train/entropy_loss"
scope = Scope("stable_baselines3")
_vectors: WeakKeyDictionary[Any, VectorEpisodes] = WeakKeyDictionary()


def patch_base_class(module: ModuleType, patches: Patches) -> None:
    """Learn from the algorithms what is trained, and how."""
    version = getattr(sys.modules.get(SYSTEM), "__version__", None)
    systems.register(SYSTEM, SYSTEM, version, _algorithm_of)
    patches.on_restore(partial(systems.unregister, SYSTEM))
    patches.observe(module, "BaseAlgorithm.__init__", before=_identify)


def patch_logger(module: ModuleType, patches: Patches) -> None:
    """Record what is logged when the logger writes it out: it is complete then."""
    patches.observe(module, "Logger.dump", before=_log, required=True)


def patch_evaluation(module: ModuleType, patches: Patches) -> None:
    """Make evaluations a phase, inside of steps or not."""
    patches.replace(module, "evaluate_policy", in_phase(spans.RL_EVALUATE, scope), required=True)


def patch_subproc_vec_env(module: ModuleType, patches: Patches) -> None:
    """Follow the vector whose environments are in processes of their own, which do not count."""
    patches.on_restore(_vectors.clear)
    patches.observe(module, "_worker", before=_worker_begins)
    patches.observe(module, "SubprocVecEnv.reset", before=_vector_begins)
    patches.observe(module, "SubprocVecEnv.step_wait", after=_stepped)


def _algorithm_of(kind: type) -> str | None:
    """Return the name of an algorithm's class; None for their base classes."""
    return kind.__name__.lower() if kind.__module__.count(".") > 1 and ".common." not in kind.__module__ else None


def _identify(algorithm: Any, *_: Any, **__: Any) -> None:
    systems.configured(type(algorithm), SYSTEM, None, RlRoleValues.TRAINER)


def _log(logger: Any, step: int = 0, *_: Any, **__: Any) -> None:
    # Images, videos and histograms are none of our business.
    values = {key: value for key, value in logger.name_to_value.items() if _is_scalar(value)}
    if _NEGATIVE_ENTROPY in values:
        values["entropy"] = -values.pop(_NEGATIVE_ENTROPY)
    if values:
        sink.log(scope, Source.TRAINER, step, values)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int | float | str) or type(value).__module__ == "numpy"


def _worker_begins(*_: Any, **__: Any) -> None:
    environments.leave_to_parent()


def _vector_begins(vector: Any, *_: Any, **__: Any) -> None:
    if not environments.is_followed():
        return
    episodes = _vectors.get(vector)
    if episodes is None:
        # What it is made of, only the processes know.
        episodes = _vectors[vector] = VectorEpisodes(type(vector).__name__, vector.num_envs, skips_reset=False)
    episodes.begin()


def _stepped(result: Any, vector: Any, *_: Any, **__: Any) -> None:
    episodes = _vectors.get(vector)
    if episodes is not None:
        _, rewards, ended, infos = result
        episodes.add(rewards, ended, lambda index: infos[index].get(environments.SUCCESS))
