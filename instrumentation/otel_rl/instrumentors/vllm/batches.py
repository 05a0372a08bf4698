"""Calls of ``LLM``: one span per call, however many requests it has."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.inference import ownership
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.instrumentors.vllm import sync_check, weights
from otel_rl.instrumentors.vllm.engines import PROVIDER, model_of, sampling_values, scope
from otel_rl.instrumentors.vllm.outputs import add_output, versions_of
from otel_rl.semconv import attributes
from otel_rl.training import engine_summary

if TYPE_CHECKING:
    from collections.abc import Callable

    Begin = Callable[..., EngineCall | None]

#: True inside of a call: ``chat`` calls ``generate`` in some versions.
_inside: ContextVar[bool] = ContextVar("otel_rl_vllm_batch", default=False)


def beginning(operation: str) -> Begin:
    """Return a hook that begins a call of ``operation``."""

    def begin(llm: Any, *args: Any, **kwargs: Any) -> EngineCall | None:
        if not scope.enabled or _inside.get() or ownership.suppressed():
            return None
        sync_check.before_generation(llm, args, kwargs)
        given = kwargs.get("sampling_params", args[1] if len(args) > 1 else None)
        values = sampling_values(given)
        weights.add_version(values, llm)
        call = EngineCall(scope, operation, PROVIDER, model_of(llm), values)
        call.enter()
        _inside.set(True)
        return call

    return begin


def end(call: EngineCall, outputs: Any, error: BaseException | None) -> None:
    """End a call that has returned the outputs of its requests, or raised."""
    _inside.set(False)
    values: dict[str, Any] = {}
    try:
        if isinstance(outputs, list):
            for output in outputs:
                add_output(call.requests, output)
            values = versions_of(outputs)
    finally:
        call.finish(error, values)
    summarise(call)


def summarise(call: EngineCall) -> None:
    """Add the call to the summary of the step."""
    times = dict(call.requests.times)
    if call.policy_age is not None:
        times[attributes.RL_POLICY_AGE] = [call.policy_age]
    engine_summary.add(call.requests.step_counts(), times)
