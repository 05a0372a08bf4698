"""Versions of the weights that the engines of this process generate with, and the size of an update.

An engine's version rises when it generates with weights that have changed since it last did. A program may name the
version; else the updates are counted. So parameters that are brought one by one make one version.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import baggage

from otel_rl.instrumentors.vllm.engines import scope
from otel_rl.semconv import attributes, metrics

_BITS = re.compile(r"\d+")
#: Most objects among the arguments that are looked at for their size, and how deep.
_MOST_OBJECTS, _DEEPEST = 4096, 4


class Weights:
    """The weights of one engine, as far as its operations tell."""

    def __init__(self) -> None:
        self._updates = 0
        self._name: str | None = None
        self._changed = False
        #: When they changed last, by ``time.perf_counter()``; None while they are those that the engine began with.
        self._since: float | None = None
        #: Between the start and the finish of an update the weights are of two versions.
        self._updating = False

    def started(self) -> None:
        """Begin an update of several calls."""
        self._updating = True

    def changed(self, name: str | None = None) -> None:
        """Record that the weights have changed; ``name`` is what the program calls this version."""
        self._updating = False
        if name is not None or not self._changed:
            self._name = name
        self._changed = True
        self._since = time.perf_counter()

    def moved(self) -> None:
        """Record that a part of the weights has changed."""
        if not self._updating:
            self.changed(self._name if self._changed else None)

    @property
    def age(self) -> float | None:
        """Seconds since they changed; None where they never did."""
        return None if self._since is None else time.perf_counter() - self._since

    @property
    def is_updating(self) -> bool:
        """True between the first and the last call of an update."""
        return self._updating

    def version(self) -> str:
        """Return the version that the engine generates with from now on."""
        if self._changed and not self._updating:
            self._changed = False
            self._updates += 1
            scope.record(metrics.RL_SYNC_UPDATES, 1)
        return self._name or str(self._updates)


_weights: WeakKeyDictionary[Any, Weights] = WeakKeyDictionary()


def of_engine(engine: Any) -> Weights:
    """Return the weights of an ``LLM``, which are those of its ``LLMEngine``, or of an ``AsyncLLM``."""
    engine = getattr(engine, "llm_engine", engine)
    weights = _weights.get(engine)
    if weights is None:
        weights = _weights.setdefault(engine, Weights())
    return weights


def add_version(values: dict[str, Any], engine: Any) -> None:
    """Add the version that ``engine`` generates with, unless the rollout around it was given another, and its age."""
    weights = of_engine(engine)
    version = weights.version()
    age = weights.age
    if age is not None:
        values[attributes.RL_POLICY_AGE] = age
    if baggage.get_baggage(attributes.RL_POLICY_VERSION) is None:
        values[attributes.RL_POLICY_VERSION] = version


def size_of(*given: Any) -> int | None:
    """Bytes of the weights that the arguments of an operation bring or describe; None where they do not say.

    They bring tensors, or describe them by ``shapes`` and ``dtype_names``, as the updates of vLLM's engines for weight
    transfer do (``vllm.distributed.weight_transfer``). Only sizes are read, never a tensor.
    """
    total = 0
    waiting = [(value, 0) for value in given]
    looked_at = 0
    while waiting and looked_at < _MOST_OBJECTS:
        value, depth = waiting.pop()
        looked_at += 1
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            total += size
            continue
        fields = value if isinstance(value, dict) else getattr(value, "__dict__", None) if depth == 0 else None
        if isinstance(fields, dict):
            total += _described(fields)
            value = list(fields.values())
        if isinstance(value, list | tuple) and depth < _DEEPEST:
            waiting.extend((inner, depth + 1) for inner in value[: _MOST_OBJECTS - looked_at])
    return total or None


def _described(fields: dict[Any, Any]) -> int:
    shapes, types = fields.get("shapes"), fields.get("dtype_names")
    if not isinstance(shapes, list | tuple) or not isinstance(types, list | tuple):
        return 0
    return sum(math.prod(shape) * _bytes_of(name) for shape, name in zip(shapes, types, strict=False))


def _bytes_of(dtype: object) -> int:
    """Bytes of an element by the name of its type: ``bfloat16``, ``torch.float8_e4m3fn``."""
    bits = _BITS.search(str(dtype))
    return max(int(bits.group()) // 8, 1) if bits else 1
