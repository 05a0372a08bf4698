"""What vLLM says of a finished request: tokens, reasons, times, versions of the weights.

Nothing here imports vLLM, and fields that a version lacks are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference.engine_requests import EngineRequests, Times

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Most versions of the weights that a span names.
_MOST_VERSIONS = 8


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


def times_of(metrics: Any) -> Times | None:
    """Return the times of a ``RequestStateStats``; None where the engine keeps none (``disable_log_stats``).

    Its ``arrival_time`` is of the wall clock and of the program's process. The others are of the monotonic clock of the
    engine's process, so only those are compared with each other. A moment that has not come is 0.
    https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/v1/metrics/stats.py
    """
    if metrics is None:
        return None
    queued, scheduled, first, last = (
        getattr(metrics, name, None) for name in ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
    )
    decode = _between(first, last)
    tokens = getattr(metrics, "num_generation_tokens", None) or 0
    latency = getattr(metrics, "first_token_latency", None)
    return Times(
        queue=_between(queued, scheduled),
        first_token=latency if latency and latency > 0 else None,
        prefill=_between(scheduled, first),
        decode=decode,
        total=_between(queued, last),
        per_output_token=decode / (tokens - 1) if decode is not None and tokens > 1 else None,
    )


def _between(start: float | None, end: float | None) -> float | None:
    return end - start if start and end and end >= start else None


def weight_versions(outputs: Iterable[Any]) -> str | None:
    """Return the versions of the weights that made ``outputs`` as vLLM labels them, joined by commas, or None."""
    versions: dict[str, None] = {}
    for output in outputs:
        for candidate in getattr(output, "outputs", None) or ():
            for labelled in getattr(candidate, "weight_versions", None) or ():
                version = getattr(labelled, "version", None)
                if version is not None and len(versions) < _MOST_VERSIONS:
                    versions[str(version)] = None
    return ",".join(versions) or None
