"""What inference engines measure themselves, as it arrives in Prometheus, and PromQL over it.

The names are those of vLLM 0.33 and SGLang 0.5.23 and not in our registry: a test compares them with recorded output.
SGLang's router writes the colon of each name as an underscore.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboards.lib.promql import Match, aggregate, series
from otel_rl.semconv import attributes
from otel_rl.semconv.definitions import MetricDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JOB, MODEL, INSTANCE = "job", "model_name", "instance"
#: Identifies a replica: the job is the engine, the instance its address, behind a router too.
REPLICA = (attributes.RL_RUN_ID, JOB, MODEL, INSTANCE)
#: Job of `up`: the engine of a target that does not answer is unknown.
OF_A_TARGET = Match(JOB, "engine")
#: SGLang's pipeline ranks, and on request all tensor ranks, report the same requests.
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
#: The replicas that are chosen at the top of the board.
OF_A_REPLICA = Match(INSTANCE, "$replica", "=~")


def _vllm(name: str, kind: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(f"vllm:{name}", kind, "", "", None, (MODEL, "engine", *labels))


def _sglang(name: str, kind: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(f"sglang:{name}", kind, "", "", None, (MODEL, "engine_type", *labels))


RUNNING = (_vllm("num_requests_running", "gauge"), _sglang("num_running_reqs", "gauge"))
WAITING_VLLM = _vllm("num_requests_waiting", "gauge")
#: All but the first two exist only if prefill and decode run on different servers.
WAITING_SGLANG = tuple(
    _sglang(f"num_{queue}_reqs", "gauge")
    for queue in (
        "queue",
        "grammar_queue",
        "prefill_bootstrap_queue",
        "decode_prealloc_queue",
        "decode_transfer_queue",
    )
)
KV_USAGE = (_vllm("kv_cache_usage_perc", "gauge"), _sglang("token_usage", "gauge"))
#: In tokens, both.
PREFIX_HITS = (_vllm("prefix_cache_hits", "counter"), _sglang("cached_tokens", "counter"))
PREFIX_QUERIES = (_vllm("prefix_cache_queries", "counter"), _sglang("prompt_tokens", "counter"))
PREEMPTIONS = (_vllm("num_preemptions", "counter"), _sglang("num_retracted_requests", "counter"))
FINISHED_VLLM = _vllm("request_success", "counter", "finished_reason")
ABORTED_SGLANG = _sglang("num_aborted_requests", "counter")
GENERATED = (_vllm("generation_tokens", "counter"), _sglang("generation_tokens", "counter"))

QUEUE_TIME = (_vllm("request_queue_time_seconds", "histogram"), _sglang("queue_time_seconds", "histogram"))
FIRST_TOKEN = tuple(one("time_to_first_token_seconds", "histogram") for one in (_vllm, _sglang))
INTER_TOKEN = tuple(one("inter_token_latency_seconds", "histogram") for one in (_vllm, _sglang))

#: Bytes and seconds of a transfer, for each of vLLM's connectors.
TRANSFERS_VLLM = tuple(
    (_vllm(f"{way}_bytes_transferred", "histogram"), _vllm(f"{way}_xfer_time_seconds", "histogram"))
    for way in ("nixl", "mooncake")
)
#: In mebibytes and milliseconds.
TRANSFER_SGLANG = (_sglang("kv_transfer_total_mb", "histogram"), _sglang("kv_transfer_latency_ms", "histogram"))
TRANSFER_FAILURES_VLLM = tuple(
    _vllm(name, "counter")
    for name in (
        "nixl_num_failed_transfers",
        "nixl_num_kv_expired_reqs",
        "mooncake_num_failed_transfers",
        "mooncake_num_failed_recvs",
        "mooncake_num_kv_expired_reqs",
    )
)
TRANSFER_FAILURES_SGLANG = tuple(
    _sglang(name, "counter") for name in ("num_transfer_failed_reqs", "num_bootstrap_failed_reqs")
)

WEIGHT_UPDATE_VLLM = MetricDefinition(
    "vllm:rl_weight_update_operation_duration_seconds", "histogram", "", "", None, ("operation",)
)
WEIGHT_LOAD_SGLANG = _sglang("weight_load_duration_seconds", "gauge", "source")
#: SGLang has no such metric.
SLEEP_VLLM = _vllm("engine_sleep_state", "gauge", "sleep_state")

UP = MetricDefinition("up", "gauge", "", "Whether a target answered", None, (JOB, INSTANCE))
SCRAPED = MetricDefinition("scrape_samples_scraped", "gauge", "", "Samples of a target", None, (JOB, INSTANCE))


def routed(metric: MetricDefinition) -> MetricDefinition:
    """Return the metric as SGLang's router names it."""
    return replace(metric, name=metric.name.replace(":", "_"))


def definitions() -> tuple[MetricDefinition, ...]:
    """Every metric of this module, as an engine names it."""

    def flat(value: object) -> list[MetricDefinition]:
        if isinstance(value, tuple):
            return [one for each in value for one in flat(each)]
        return [value] if isinstance(value, MetricDefinition) else []

    return tuple(flat(tuple(globals().values())))


def of(metric: MetricDefinition, *matches: Match, part: str = "") -> str:
    """Return the selector of a metric, of all runs."""
    return series(metric, *matches, part=part, run=None)


def once(expression: str) -> str:
    """Return one series for the ranks that report the same."""
    return f"max without ({', '.join(_RANKS)}) ({expression})"


def first(*alternatives: str) -> str:
    """Return the first of the alternatives that a replica has."""
    return "\n  or\n".join(alternatives)


def total(expression: Callable[[MetricDefinition], str], *metrics: MetricDefinition, function: str = "sum") -> str:
    """Sum over these metrics by replica, in the spelling of the engine, or else of its router."""
    return first(_by_replica(function, expression, metrics), _by_replica(function, expression, map(routed, metrics)))


def _by_replica(
    function: str, expression: Callable[[MetricDefinition], str], metrics: Iterable[MetricDefinition]
) -> str:
    each = [expression(metric) for metric in metrics]
    if len(each) > 1:  # else `or` would drop series with equal labels
        each = [f'label_replace({text}, "part", "{number}", "", "")' for number, text in enumerate(each)]
    return aggregate(function, once(" or ".join(each)), *REPLICA)
