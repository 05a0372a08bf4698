"""Operations on the weights, the memory and the caches of an engine: which they are, and what they bring."""

from __future__ import annotations

import re
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference import ownership
from otel_rl.instrumentors.vllm import sync_check, weights
from otel_rl.instrumentors.vllm.engines import scope
from otel_rl.semconv import attributes, metrics
from otel_rl.training.sync_operations import SyncOperation, is_phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

#: Methods of workers that bring weights: of vLLM, and of the extensions of verl, OpenRLHF, SkyRL, NeMo RL and TRL.
_ABOUT_WEIGHTS = re.compile(r"weight|named_param", re.IGNORECASE)
#: Methods of a model that a function given to ``apply_model`` calls to change it.
_CHANGES_MODEL = frozenset({"load_weights", "copy_", "load_state_dict"})
#: The operation that this context is inside of: most call others.
_inside: ContextVar[EngineOperation | None] = ContextVar("otel_rl_vllm_operation", default=None)


class WeightEffect(NamedTuple):
    """What an operation does to the weights.

    Attributes:
        brings: it is a part of bringing weights, and not of managing memory.
        starts: an update of several calls begins with it.
        changes: the weights, or a part of them, have changed after it.
        finishes: they are of one version after it.
    """

    brings: bool = True
    starts: bool = False
    changes: bool = False
    finishes: bool = False


_MEMORY = WeightEffect(brings=False)
#: Methods of ``LLM``, ``LLMEngine`` and ``AsyncLLM``.
KINDS = {
    "sleep": _MEMORY,
    "wake_up": _MEMORY,
    "reset_prefix_cache": _MEMORY,
    "release_kv_cache_memory": _MEMORY,
    "pause_generation": _MEMORY,
    "resume_generation": _MEMORY,
    "init_weight_transfer_engine": WeightEffect(),
    "start_weight_update": WeightEffect(starts=True),
    "start_draft_weight_update": WeightEffect(),
    "update_weights": WeightEffect(changes=True),
    "finish_weight_update": WeightEffect(finishes=True),
    "update_weight_version": WeightEffect(finishes=True),
}
#: Arguments that name the version.
_VERSION = {"finish_weight_update": "weight_version", "update_weight_version": "new_version"}
_CHANGE = WeightEffect(changes=True)
#: Positions among the arguments of ``collective_rpc`` after the method.
_ARGS, _KWARGS = 1, 2


class EngineOperation:
    """One operation that is running."""

    def __init__(self, engine: Any, name: str, kind: WeightEffect, size: int | None, version: str | None) -> None:
        self._engine, self._weights = engine, weights.of_engine(engine)
        self._name, self._kind, self._size, self._version = name, kind, size, version
        if kind.starts:
            self._weights.started()
        values = {attributes.RL_SYNC_SIZE: size, attributes.RL_POLICY_VERSION: version}
        self._operation = SyncOperation(scope, name, values, is_phase=is_phase(brings_weights=kind.brings))
        self._token: Token[EngineOperation | None] = _inside.set(self)
        self.has_ended = False

    def end(self, error: BaseException | None) -> None:
        """End the operation, which has returned or raised."""
        self.has_ended = True
        # A coroutine that its program closes may end in another context than it began in.
        with suppress(ValueError):
            _inside.reset(self._token)
        self._operation.end(error)
        if error is not None:
            return
        if self._size:
            scope.record(metrics.RL_SYNC_TRANSFERRED, self._size, {attributes.RL_SYNC_OPERATION: self._name})
        if self._kind.finishes:
            self._weights.changed(self._version)
        elif self._kind.changes:
            self._weights.moved()
        if self._kind.changes or self._kind.finishes:
            sync_check.sync_ended(self._engine, self._name)


def beginning(name: str) -> Callable[..., EngineOperation | None]:
    """Return a hook that begins the operation of the method ``name``."""
    kind = KINDS[name]

    def begin(engine: Any, *args: Any, **kwargs: Any) -> EngineOperation | None:
        if not _wanted():
            return None
        size = weights.size_of(*args, *kwargs.values()) if kind.changes else None
        given = kwargs.get(_VERSION.get(name, ""), args[0] if args and name in _VERSION else None)
        return EngineOperation(engine, name, kind, size, None if given is None else str(given))

    return begin


def begin_rpc(engine: Any, method: Any, *given: Any, **named: Any) -> EngineOperation | None:
    """``collective_rpc`` calls a method of the workers, or a function with each worker."""
    args = named.get("args", given[_ARGS] if len(given) > _ARGS else ())
    kwargs = named.get("kwargs", given[_KWARGS] if len(given) > _KWARGS else None)
    name = method if isinstance(method, str) else getattr(method, "__name__", "")
    if name == "apply_model" and args:
        return begin_apply(engine, args[0])
    if not _wanted() or not (_ABOUT_WEIGHTS.search(name) or _changes_model(method)):
        return None
    return EngineOperation(engine, name, KINDS.get(name, _CHANGE), weights.size_of(args or (), kwargs or {}), None)


def begin_apply(engine: Any, func: Any, *_: Any, **__: Any) -> EngineOperation | None:
    """``apply_model`` calls a function with the model of each worker."""
    name = getattr(func, "__name__", "")
    if not _wanted() or not (_ABOUT_WEIGHTS.search(name) or _changes_model(func)):
        return None
    return EngineOperation(engine, "apply_model", _CHANGE, None, None)


def end(operation: EngineOperation, _: Any, error: BaseException | None) -> None:
    """End an operation that has returned or raised."""
    operation.end(error)


def _wanted() -> bool:
    around = _inside.get()
    return scope.enabled and (around is None or around.has_ended) and not ownership.suppressed()


def _changes_model(function: Any) -> bool:
    """Return whether a function calls one of the methods that change a model; its own code is looked at, not more."""
    code = getattr(function, "__code__", None)
    return code is not None and not _CHANGES_MODEL.isdisjoint(code.co_names)
