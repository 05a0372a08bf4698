"""Times of one request as its engine reports them: their names there, and their metrics.

The times of a request are a dictionary from an attribute to its value, without what the engine does not report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference.fields import count_of, fields_of, number_of
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlEngineStageValues as Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opentelemetry.context import Context

    from otel_rl.telemetry.scope import Scope

_QUEUE, _PREFILL, _DECODE = (
    attributes.RL_ENGINE_QUEUE_TIME,
    attributes.RL_ENGINE_PREFILL_TIME,
    attributes.RL_ENGINE_DECODE_TIME,
)
_FIRST, _WHOLE, _SPEED = (
    attributes.RL_ENGINE_TIME_TO_FIRST_TOKEN,
    attributes.RL_ENGINE_REQUEST_TIME,
    attributes.RL_ENGINE_DECODE_THROUGHPUT,
)
#: Attribute with a time of a request -> its histogram.
HISTOGRAMS = {
    _QUEUE: metrics.RL_ENGINE_QUEUE_DURATION,
    _PREFILL: metrics.RL_ENGINE_PREFILL_DURATION,
    _DECODE: metrics.RL_ENGINE_DECODE_DURATION,
    attributes.RL_ENGINE_TRANSFER_TIME: metrics.RL_ENGINE_TRANSFER_DURATION,
}
#: Attribute with a stage of separate prefill and decode servers -> its name on the metric.
STAGES = {
    attributes.RL_ENGINE_PREFILL_BOOTSTRAP_QUEUE_TIME: Stage.PREFILL_BOOTSTRAP_QUEUE,
    attributes.RL_ENGINE_PREFILL_BOOTSTRAP_TIME: Stage.PREFILL_BOOTSTRAP,
    attributes.RL_ENGINE_PREFILL_ALLOC_WAIT_TIME: Stage.PREFILL_ALLOC_WAIT,
    attributes.RL_ENGINE_PREFILL_TRANSFER_QUEUE_TIME: Stage.PREFILL_TRANSFER_QUEUE,
    attributes.RL_ENGINE_DECODE_PREALLOC_TIME: Stage.DECODE_PREALLOC,
    attributes.RL_ENGINE_DECODE_BOOTSTRAP_TIME: Stage.DECODE_BOOTSTRAP,
    attributes.RL_ENGINE_DECODE_ALLOC_WAIT_TIME: Stage.DECODE_ALLOC_WAIT,
}
_COUNTERS = {
    attributes.RL_ENGINE_TRANSFER_SIZE: metrics.RL_ENGINE_TRANSFERRED,
    attributes.RL_ENGINE_PREFILL_RETRIES: metrics.RL_ENGINE_PREFILL_RETRIED,
}
#: Field of vLLM's ``metrics`` -> attribute, and seconds of its unit.
_VLLM = {
    "queue_time_ms": (_QUEUE, 1e-3),
    "time_to_first_token_ms": (_PREFILL, 1e-3),
    "generation_time_ms": (_DECODE, 1e-3),
}
#: Field of SGLang's ``meta_info`` -> attribute, and what a unit of the field is. Those with ``pd_`` come only from
#: slime's patch of SGLang 0.5.15 (``docker/patch/latest/sglang.patch``, ``convert_to_output_meta_info``); MB and GB are
#: powers of 1024 (``SchedulerReqTimeStats.compute_and_observe_kv_transfer_metrics``).
_SGLANG = {
    "queue_time": (_QUEUE, 1.0),
    "first_token_latency": (_FIRST, 1.0),
    "e2e_latency": (_WHOLE, 1.0),
    "decode_throughput": (_SPEED, 1.0),
    "pd_prefill_forward_duration": (_PREFILL, 1.0),
    "pd_decode_forward_duration": (_DECODE, 1.0),
    "pd_decode_transfer_duration": (attributes.RL_ENGINE_TRANSFER_TIME, 1.0),
    "pd_prefill_bootstrap_queue_duration": (attributes.RL_ENGINE_PREFILL_BOOTSTRAP_QUEUE_TIME, 1.0),
    "pd_prefill_bootstrap_duration": (attributes.RL_ENGINE_PREFILL_BOOTSTRAP_TIME, 1.0),
    "pd_prefill_alloc_wait_duration": (attributes.RL_ENGINE_PREFILL_ALLOC_WAIT_TIME, 1.0),
    "pd_prefill_transfer_queue_duration": (attributes.RL_ENGINE_PREFILL_TRANSFER_QUEUE_TIME, 1.0),
    "pd_prefill_retry_count": (attributes.RL_ENGINE_PREFILL_RETRIES, 1.0),
    "pd_decode_prealloc_duration": (attributes.RL_ENGINE_DECODE_PREALLOC_TIME, 1.0),
    "pd_decode_bootstrap_duration": (attributes.RL_ENGINE_DECODE_BOOTSTRAP_TIME, 1.0),
    "pd_decode_alloc_wait_duration": (attributes.RL_ENGINE_DECODE_ALLOC_WAIT_TIME, 1.0),
    "pd_transfer_speed_gb_s": (attributes.RL_ENGINE_TRANSFER_SPEED, 1024.0**3),
    "pd_transfer_total_mb": (attributes.RL_ENGINE_TRANSFER_SIZE, 1024.0**2),
}
#: No request decodes its tokens faster than one in so many seconds.
_SHORTEST_TOKEN = 1e-6


def of_vllm(source: Any) -> dict[str, float]:
    """Return the times of ``metrics``, which a server of vLLM adds with ``--enable-per-request-metrics``.

    It counts the time to the first token from the scheduling on (0.32, ``build_per_request_timing_metrics``).
    """
    fields = fields_of(source)
    times = _read(fields, _VLLM)
    if _QUEUE in times and _PREFILL in times:
        times[_FIRST] = times[_QUEUE] + times[_PREFILL]
        if _DECODE in times:
            times[_WHOLE] = times[_FIRST] + times[_DECODE]
    between = number_of(fields.get("mean_itl_ms"))
    if between:
        times[_SPEED] = 1000 / between
    return times


def of_sglang(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the times of ``meta_info``; none without ``--enable-metrics``, which leaves only the whole time."""
    times = _read(facts, _SGLANG)
    first, whole = times.get(_FIRST), times.get(_WHOLE)
    tokens = count_of(facts.get("completion_tokens")) or 0
    if first is not None and whole is not None and whole - first < (tokens - 1) * _SHORTEST_TOKEN:
        # In 0.5.13 the first token of an answer that is no stream has the time of the last one.
        first = None
        del times[_FIRST]
        times.pop(_SPEED, None)
    if first is not None:
        if _QUEUE in times:
            times.setdefault(_PREFILL, max(first - times[_QUEUE], 0.0))
        if whole is not None:
            times.setdefault(_DECODE, max(whole - first, 0.0))
    return times if times.keys() - {_WHOLE} else {}


def _read(fields: Mapping[str, Any], names: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    known = ((name, number_of(fields.get(field)), unit) for field, (name, unit) in names.items())
    return {name: number * unit for name, number, unit in known if number is not None}


def together(requests: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the values of each time, of the requests that have it."""
    listed: dict[str, list[float]] = {}
    for times in requests:
        for name, value in times.items():
            listed.setdefault(name, []).append(value)
    return listed


def means(listed: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean of each time."""
    return {name: sum(values) / len(values) for name, values in listed.items()}


def record(
    scope: Scope,
    listed: Mapping[str, Sequence[float]],
    labels: Mapping[str, Any],
    context: Context | None,
) -> None:
    """Record times of requests with the same ``labels``; those without a metric are left out."""
    for name, values in listed.items():
        if name in HISTOGRAMS:
            scope.record_all(HISTOGRAMS[name], values, labels, context)
        elif name in STAGES:
            staged = {**labels, attributes.RL_ENGINE_STAGE: STAGES[name]}
            scope.record_all(metrics.RL_ENGINE_STAGE_DURATION, values, staged, context)
        elif name in _COUNTERS and (total := sum(values)):
            scope.record(_COUNTERS[name], int(total), labels, context)
