"""Inference engines by run and replica: one family of names over vLLM and SGLang, direct or behind a router.

Metrics that only one engine has are left out: the sleep state (vLLM), grammars and sessions (SGLang).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dashboards.lib import engines
from dashboards.lib.engines import INSTANCE, JOB, MODEL, OF_A_TARGET, REPLICA, first, of, once, total
from dashboards.lib.names import alert_label
from dashboards.lib.promql import Match, aggregate, by, increased, on
from dashboards.lib.rules import AlertRule, RecordingRule, RuleGroup
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.semconv.definitions import MetricDefinition

RUN = attributes.RL_RUN_ID
#: Rates and quantiles are over this time.
WINDOW = "5m"
#: For rare events, so that an alert stays visible: failures and updates of weights.
EVENTS = "15m"
#: A replica without work for so long is unused.
USE = "10m"
#: How long a replica counts as missing after its router stopped listing it.
MISSING = "30m"
QUANTILES = (0.5, 0.95, 0.99)
_ON_REPLICA = on(*REPLICA)
_MEBIBYTE, _MILLISECONDS = 2**20, 1000
_NONE = "no engine is scraped"
_NO_TRANSFER = "prefill and decode share their servers"


def _per_second(metric: MetricDefinition, *matches: Match, part: str = "", window: str = WINDOW) -> str:
    return f"rate({of(metric, *matches, part=part)}[{window}])"


def _rule(name: str, description: str, *alternatives: str, empty_when: str = _NONE) -> RecordingRule:
    return RecordingRule(f"rl:engine:{name}", first(*alternatives), description, empty_when)


def _each(
    expression: Callable[[MetricDefinition], str], metrics: tuple[MetricDefinition, ...], function: str = "sum"
) -> list[str]:
    return [total(expression, metric, function=function) for metric in metrics]


RUNNING = _rule("running_requests", "Requests that a replica computes", *_each(of, engines.RUNNING))
#: SGLang's counters have no series before the first event, vLLM's none if the feature is off.
_ZERO = f"0 * {RUNNING.name}"
WAITING = _rule(
    "waiting_requests",
    "Requests that wait in a replica",
    total(of, engines.WAITING_VLLM),
    total(of, *engines.WAITING_SGLANG),
)
KV_USAGE = _rule("kv_usage", "Share of its KV cache that a replica uses", *_each(of, engines.KV_USAGE, "max"))
GENERATED = _rule(
    "generated_tokens", "Tokens per second that a replica generates", *_each(_per_second, engines.GENERATED), _ZERO
)
_HITS = first(*_each(_per_second, engines.PREFIX_HITS), _ZERO)
_QUERIES = first(*_each(_per_second, engines.PREFIX_QUERIES))
PREFIX_HITS = _rule(
    "prefix_hit_share",
    "Share of the tokens of prompts that a replica's prefix cache had",
    f"(\n{_HITS}\n)\n  / {_ON_REPLICA}\n(\n({_QUERIES}) > 0\n)",
    empty_when="no request came",
)
PREEMPTIONS = _rule(
    "preemptions",
    "Requests per second that a replica interrupts for lack of memory",
    *_each(_per_second, engines.PREEMPTIONS),
    _ZERO,
)
_UNFINISHED = Match("finished_reason", "abort|error", "=~")
ABORTED = _rule(
    "aborted_requests",
    "Requests per second that a replica ends without an answer",
    total(lambda metric: _per_second(metric, _UNFINISHED), engines.FINISHED_VLLM),
    total(_per_second, engines.ABORTED_SGLANG),
    _ZERO,
)


_sums, _counts = partial(_per_second, part="sum"), partial(_per_second, part="count")


def _ratio(above: str, below: str, factor: int = 1) -> str:
    times = f"{factor} * " if factor > 1 else ""
    return f"{times}({above})\n  / {_ON_REPLICA}\n(({below}) > 0)"


_BYTES_VLLM, _SECONDS_VLLM = zip(*engines.TRANSFERS_VLLM, strict=True)
_MEBIBYTES_SGLANG, _MILLISECONDS_SGLANG = engines.TRANSFER_SGLANG
TRANSFER_SPEED = _rule(
    "transfer_bytes_per_second",
    "Bytes per second while the KV cache of a request moves to another replica",
    _ratio(total(_sums, *_BYTES_VLLM), total(_sums, *_SECONDS_VLLM)),
    _ratio(total(_sums, _MEBIBYTES_SGLANG), total(_sums, _MILLISECONDS_SGLANG), _MEBIBYTE * _MILLISECONDS),
    empty_when=_NO_TRANSFER,
)
TRANSFER_TIME = _rule(
    "transfer_seconds",
    "Mean seconds for which the KV cache of a request moves to another replica",
    _ratio(total(_sums, *_SECONDS_VLLM), total(_counts, *_SECONDS_VLLM)),
    f"{_ratio(total(_sums, _MILLISECONDS_SGLANG), total(_counts, _MILLISECONDS_SGLANG))} / {_MILLISECONDS}",
    empty_when=_NO_TRANSFER,
)


def _recently(metric: MetricDefinition) -> str:
    return f"({increased(of(metric), EVENTS)})"


TRANSFER_FAILURES = _rule(
    "transfer_failures",
    "Transfers of a KV cache that failed within a quarter of an hour",
    total(_recently, *engines.TRANSFER_FAILURES_VLLM),
    total(_recently, *engines.TRANSFER_FAILURES_SGLANG),
    _ZERO,
)


def _updates(part: str) -> str:
    update = Match("operation", "update")
    return total(lambda metric: _per_second(metric, update, part=part, window=EVENTS), engines.WEIGHT_UPDATE_VLLM)


WEIGHT_UPDATE = _rule(
    "weight_update_seconds",
    "Seconds of an update of the weights: of SGLang the last one, of vLLM the mean of a quarter of an hour",
    _ratio(_updates("sum"), _updates("count")),
    total(of, engines.WEIGHT_LOAD_SGLANG, function="max"),
    empty_when="no weights came over the engine's own operations",
)


def _quantiles(name: str, description: str, histograms: tuple[MetricDefinition, ...]) -> RecordingRule:
    buckets = first(*(_buckets(name) for metric in histograms for name in (metric, engines.routed(metric))))
    alternatives = [
        f'label_replace(histogram_quantile({share}, (\n{buckets}\n)), "quantile", "{share}", "", "")'
        for share in QUANTILES
    ]
    return _rule(name, f"{description}, by quantile", *alternatives, empty_when="no request came")


def _buckets(metric: MetricDefinition) -> str:
    return aggregate("sum", once(_per_second(metric, part="bucket")), "le", *REPLICA)


QUEUE_TIME = _quantiles("queue_seconds", "Seconds that a request waits in a replica", engines.QUEUE_TIME)
FIRST_TOKEN = _quantiles("first_token_seconds", "Seconds until a replica's first token", engines.FIRST_TOKEN)
INTER_TOKEN = _quantiles("inter_token_seconds", "Seconds between two tokens of a replica", engines.INTER_TOKEN)

# The minimum of the last minutes above the mean of those before. If a step fills the queue and it then empties, this
# holds for a few minutes only.
QUEUE_GROWTH = _rule(
    "queue_growth",
    "By how many requests a replica's queue does not fall below its former mean",
    f"min_over_time({WAITING.name}[{WINDOW}]) - avg_over_time({WAITING.name}[{WINDOW}] offset {WINDOW})",
    f"0 * {WAITING.name}",
)
USED = _rule(
    "used",
    "1 for a replica that had work within 10 minutes, else 0",
    f"(max_over_time({RUNNING.name}[{USE}]) + {_ON_REPLICA} max_over_time({GENERATED.name}[{USE}])) > bool 0",
)
_SAME_MODEL = (RUN, JOB, MODEL)
UNUSED = _rule(
    "unused",
    "1 for a replica without work while another one of the same model has some, else 0",
    f"(1 - {USED.name}) * {on(*_SAME_MODEL)} group_left () max {by(*_SAME_MODEL)} ({USED.name})",
)
_TARGET = (RUN, INSTANCE)
_MISSING = f"""\
1 + 0 * max {by(*_TARGET)} (last_over_time({RUNNING.name}[{MISSING}]))
  unless {on(*_TARGET)} {RUNNING.name}
  unless {on(*_TARGET)} last_over_time({of(engines.UP, OF_A_TARGET)}[{MISSING}])
  and {on(RUN)} {RUNNING.name}"""
UNSCRAPED = _rule(
    "unscraped",
    "1 for a target that gives no metric, and for a replica that its router no longer lists; else 0",
    f"max {by(*_TARGET)} (1 - {of(engines.UP, OF_A_TARGET)} + ({of(engines.SCRAPED, OF_A_TARGET)} == bool 0) > bool 0)",
    f"(\n{_MISSING}\n)",
)

_BOARD = "otel-rl-serving"
_WHO = f"The engine at {alert_label(INSTANCE)} of run {alert_label(RUN)}"


def _alert(name: str, signal: RecordingRule, wait: str, severity: str, what: str, why: str) -> AlertRule:
    return AlertRule(name, signal.name, "> 0", wait, severity, f"{_WHO} {what}", why, _BOARD)


QUEUE_GROWING = _alert(
    "EngineQueueGrowing",
    QUEUE_GROWTH,
    "10m",
    "warning",
    "has a queue that only grows",
    "For 10 minutes its shortest queue is longer than the mean of the minutes before, now by {{ $value | humanize }} "
    "requests: more come than it answers.",
)
TRANSFER_FAILING = _alert(
    "EngineTransferFailing",
    TRANSFER_FAILURES,
    "1m",
    "warning",
    "fails to transfer KV caches",
    f"About {{{{ $value | humanize }}}} transfers between prefill and decode failed within {EVENTS}: their requests "
    "are computed again, or lost.",
)
ENGINE_UNUSED = _alert(
    "EngineUnused",
    UNUSED,
    "10m",
    "warning",
    "is never used",
    f"It had no request within {USE}, while other replicas of the same model have some (signal {{{{ $value }}}}): "
    "its GPUs idle.",
)
ENGINE_UNSCRAPED = _alert(
    "EngineUnscraped",
    UNSCRAPED,
    "2m",
    "warning",
    "cannot be scraped",
    "It does not answer at its metrics path, answers with something else or with too much, or its router no longer "
    "lists it (signal {{ $value }}): the board shows nothing of it.",
)
ALERTS = (QUEUE_GROWING, TRANSFER_FAILING, ENGINE_UNUSED, ENGINE_UNSCRAPED)

RECORDING_GROUPS = (
    RuleGroup(
        "otel-rl-engines",
        (
            RUNNING,
            WAITING,
            KV_USAGE,
            GENERATED,
            PREFIX_HITS,
            PREEMPTIONS,
            ABORTED,
            TRANSFER_SPEED,
            TRANSFER_TIME,
            TRANSFER_FAILURES,
            WEIGHT_UPDATE,
            QUEUE_TIME,
            FIRST_TOKEN,
            INTER_TOKEN,
            QUEUE_GROWTH,
            USED,
            UNUSED,
            UNSCRAPED,
        ),
    ),
)
GROUPS = (RuleGroup("otel-rl-engine-alerts", ALERTS),)
