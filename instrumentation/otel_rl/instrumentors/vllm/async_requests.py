"""Requests of ``AsyncLLM``: one span each, a child of what the program was in when it asked for the first output.

The span is never current: the program holds the generator. Its context goes to the engine's own tracer, if that is on,
as the trace headers of the request.
"""

from __future__ import annotations

import functools
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_rl.inference import ownership
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.inference.engine_requests import ABORT
from otel_rl.instrumentors.vllm import weights
from otel_rl.instrumentors.vllm.batches import summarise
from otel_rl.instrumentors.vllm.engines import PROVIDER, model_of, sampling_values, scope
from otel_rl.instrumentors.vllm.outputs import number_of_logprobs, times_of, versions_of
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as Ended
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADERS = guard("vllm.trace_headers")
_propagator = TraceContextTextMapPropagator()
#: By request id, while the request runs.
_running: dict[str, AsyncRequest] = {}
_MOST_RUNNING = 65_536
#: Position of ``trace_headers`` among the arguments of ``add_request`` after the instance.
_TRACE_HEADERS = 6


class AsyncRequest:
    """One request, from the first item that the program asks for to the end of its generator."""

    def __init__(self, engine: Any, sampling_params: Any, request_id: str, *, has_span: bool) -> None:
        self.request_id = request_id
        self.has_span = has_span
        values = sampling_values(sampling_params)
        values[attributes.GEN_AI_RESPONSE_ID] = request_id
        weights.add_version(values, engine)
        operation = GenAiOperationNameValues.TEXT_COMPLETION
        self.call = EngineCall(scope, operation, PROVIDER, model_of(engine), values, has_span=has_span)
        #: True where each output holds only the tokens since the one before.
        self._deltas = getattr(getattr(sampling_params, "output_kind", None), "name", "") == "DELTA"
        #: By the index of the candidate.
        self._tokens: dict[int, int] = {}
        self._logprobs: dict[int, int] = {}
        self._reasons: dict[int, str | None] = {}
        self._last: Any = None

    def observe(self, output: Any) -> None:
        """One output: of one candidate or several, with all of their tokens or the new ones."""
        self._last = output
        for candidate in output.outputs:
            index, tokens = candidate.index, len(candidate.token_ids)
            self._tokens[index] = self._tokens.get(index, 0) + tokens if self._deltas else tokens
            logprobs = number_of_logprobs(candidate)
            self._logprobs[index] = self._logprobs.get(index, 0) + logprobs if self._deltas else logprobs
            self._reasons[index] = candidate.finish_reason

    def finish(self, error: BaseException | None) -> None:
        """End a request whose generator has ended, by itself or by the program."""
        values: dict[str, Any] = {attributes.RL_INFERENCE_STREAM_ENDED: Ended.COMPLETED}
        if isinstance(error, GeneratorExit):
            values[attributes.RL_INFERENCE_STREAM_ENDED] = Ended.CLOSED
        elif isinstance(error, CancelledError):
            values[attributes.RL_INFERENCE_STREAM_ENDED] = Ended.CANCELLED
        elif error is not None:
            values.clear()
        last = self._last
        if last is not None:
            metrics = getattr(last, "metrics", None)
            self.call.requests.add(
                len(last.prompt_token_ids or ()),
                sum(self._tokens.values()),
                [reason or ABORT for reason in self._reasons.values()],
                times_of(metrics) if last.finished else None,
                getattr(last, "num_cached_tokens", None) or 0,
                getattr(metrics, "num_preemptions", None) or 0,
            )
            self.call.requests.logprobs += sum(self._logprobs.values())
            values.update(versions_of([last]))
        self.call.finish(None if isinstance(error, GeneratorExit) else error, values)
        summarise(self.call)


def begin(
    engine: Any,
    _: Any = None,
    sampling_params: Any = None,
    request_id: str = "",
    *__: Any,
    trace_headers: Any = None,
    **___: Any,
) -> AsyncRequest | None:
    """Begin a request: the program asks for its first output."""
    if not scope.enabled or ownership.suppressed():
        return None
    # A server hands on the headers of its client: the engine's own span belongs to that trace then.
    request = AsyncRequest(engine, sampling_params, request_id, has_span=trace_headers is None)
    if len(_running) >= _MOST_RUNNING:
        # Of generators that nobody finishes or closes; their spans end when they are collected.
        _running.pop(next(iter(_running)), None)
    _running[request_id] = request
    return request


def each(request: AsyncRequest, output: Any) -> None:
    """Record an output of the engine."""
    request.observe(output)


def end(request: AsyncRequest, _: Any, error: BaseException | None) -> None:
    """End the request: its generator has ended."""
    if _running.get(request.request_id) is request:
        del _running[request.request_id]
    request.finish(error)


def add_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for ``AsyncLLM.add_request``: with its tracer on, the engine's span is a child of ours."""

    @functools.wraps(original)
    async def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _HEADERS:
            headers = _headers(self, args, kwargs)
            if headers:
                kwargs = {**kwargs, "trace_headers": headers}
        return await original(self, *args, **kwargs)

    return wrapper


def _headers(engine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """Trace headers of the request, where its span is ours and the engine's tracer is on."""
    if len(args) > _TRACE_HEADERS or kwargs.get("trace_headers") is not None:
        return {}
    request = _running.get(kwargs.get("request_id") or (args[0] if args else ""))
    config = getattr(engine, "observability_config", None)
    if request is None or not request.has_span or getattr(config, "otlp_traces_endpoint", None) is None:
        return {}
    headers: dict[str, str] = {}
    _propagator.inject(headers, request.call.context)
    return headers
