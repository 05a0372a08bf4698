"""What vLLM says of a finished request: tokens, reasons, times, versions of the weights.

Nothing here imports vLLM, and fields that a version lacks are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import weight_versions
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.inference.engine_requests import EngineRequests


def add_output(requests: EngineRequests, output: Any) -> None:
    """Add a finished ``RequestOutput``; the tokens of its prompt count once, however many candidates it has."""
    candidates = getattr(output, "outputs", None) or ()
    metrics = getattr(output, "metrics", None)
    requests.add(
        len(getattr(output, "prompt_token_ids", None) or ()),
        sum(len(candidate.token_ids) for candidate in candidates),
        [str(getattr(candidate, "finish_reason", None) or "unknown") for candidate in candidates],
        times_of(metrics),
        getattr(output, "num_cached_tokens", None) or 0,
        getattr(metrics, "num_preemptions", None) or 0,
    )
    requests.logprobs += sum(map(number_of_logprobs, candidates))


def number_of_logprobs(candidate: Any) -> int:
    """Tokens of a ``CompletionOutput`` whose log-probabilities it has: in a list, or flat (``FlatLogprobs``)."""
    logprobs = getattr(candidate, "logprobs", None)
    return 0 if logprobs is None else len(logprobs)


def times_of(metrics: Any) -> dict[str, float]:
    """Return the times of a ``RequestStateStats``; the engine keeps none with ``disable_log_stats``.

    Its ``arrival_time`` is of the wall clock and of the program's process. The others are of the monotonic clock of the
    engine's process, so only those are compared with each other. A moment that has not come is 0.
    https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/v1/metrics/stats.py
    """
    queued, scheduled, first, last = (
        getattr(metrics, name, None) for name in ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
    )
    decode = _between(first, last)
    tokens = getattr(metrics, "num_generation_tokens", None) or 0
    latency = getattr(metrics, "first_token_latency", None)
    times = {
        attributes.RL_ENGINE_QUEUE_TIME: _between(queued, scheduled),
        attributes.RL_ENGINE_TIME_TO_FIRST_TOKEN: latency if latency and latency > 0 else None,
        attributes.RL_ENGINE_PREFILL_TIME: _between(scheduled, first),
        attributes.RL_ENGINE_DECODE_TIME: decode,
        attributes.RL_ENGINE_REQUEST_TIME: _between(queued, last),
        attributes.RL_ENGINE_DECODE_THROUGHPUT: (tokens - 1) / decode if decode and tokens > 1 else None,
    }
    return {name: value for name, value in times.items() if value is not None}


def _between(start: float | None, end: float | None) -> float | None:
    return end - start if start and end and end >= start else None


def versions_of(outputs: Iterable[Any]) -> dict[str, Any]:
    """Return the attributes with the versions of the weights that made ``outputs``, as vLLM labels them."""
    tokens: dict[str, int] = {}
    for output in outputs:
        for candidate in getattr(output, "outputs", None) or ():
            weight_versions.add(tokens, getattr(candidate, "weight_versions", None))
    if not tokens:
        return {}
    return {attributes.RL_INFERENCE_WEIGHT_VERSION: [*tokens][-1], **weight_versions.attributes_of(tokens)}
