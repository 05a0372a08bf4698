"""What the collector says about itself, as it arrives in Prometheus, and PromQL over it.

These metrics are the collector's own and not in our registry: a test scrapes the real program and compares. Their
units are left out on purpose: the scrape endpoint of the collector does not put them into the names, so Prometheus
never sees them.
"""

from __future__ import annotations

from dashboards.lib.names import label_name
from dashboards.lib.promql import WINDOW, Match, aggregate, series
from otel_rl.semconv.definitions import MetricDefinition

#: service.name of every collector, the label ``job`` in Prometheus.
SERVICE = "otelcol-rl"
JOB = "job"
INSTANCE = "instance"
ROLE = "otel_rl.collector.role"
#: What tells one collector from another.
WHO = (JOB, ROLE, INSTANCE)
OF_A_COLLECTOR = Match(JOB, SERVICE)
CHOSEN = (Match(ROLE, "$role", "=~"), Match(INSTANCE, "$instance", "=~"))

EXPORTER = "exporter"
SIGNAL = "data_type"
SIGNALS = ("spans", "metric_points", "log_records")
_EXPORTER_AND_SIGNAL = (EXPORTER, SIGNAL)


def _counter(name: str, description: str, *attributes: str) -> MetricDefinition:
    return MetricDefinition(f"otelcol_{name}", "counter", "", description, None, attributes)


def _gauge(name: str, description: str, *attributes: str) -> MetricDefinition:
    return MetricDefinition(f"otelcol_{name}", "gauge", "", description, None, attributes)


def _each_signal(name: str, description: str, *attributes: str) -> tuple[MetricDefinition, ...]:
    return tuple(_counter(f"{name}_{items}", description, *attributes) for items in SIGNALS)


UPTIME = _counter("process_uptime", "Seconds since the start")
CPU = _counter("process_cpu_seconds", "Processor time")
MEMORY = _gauge("process_memory_rss", "Resident memory in bytes")

ACCEPTED = _each_signal("receiver_accepted", "Items that a receiver took", "receiver", "transport")
REFUSED = _each_signal(
    "receiver_refused", "Items that a receiver refused, so that the sender keeps them", "receiver", "transport"
)
SENT = _each_signal("exporter_sent", "Items that a destination took", EXPORTER)
SEND_FAILED = _each_signal("exporter_send_failed", "Items that an exporter gave up", EXPORTER)
NOT_QUEUED = _each_signal("exporter_enqueue_failed", "Items that a full queue did not take", EXPORTER)
LIMITED = _each_signal("processor_memory_limiter_refused", "Items refused to save memory", "processor")

QUEUE_SIZE = _gauge("exporter_queue_size", "Bytes in the queue", *_EXPORTER_AND_SIGNAL)
QUEUE_CAPACITY = _gauge("exporter_queue_capacity", "Bytes that the queue may hold", *_EXPORTER_AND_SIGNAL)
UNHEALTHY = _gauge("exporter_unhealthy", "1 while nothing gets through", *_EXPORTER_AND_SIGNAL)
OLDEST = _gauge(
    "exporter_oldest_undelivered_age", "Seconds that the oldest request has been tried", *_EXPORTER_AND_SIGNAL
)
SEND_LAG = _gauge("exporter_send_lag", "Seconds between an item's time and its delivery", *_EXPORTER_AND_SIGNAL)
FAILED_REQUESTS = _counter("exporter_failed_requests", "Requests not taken", *_EXPORTER_AND_SIGNAL, "reason")
OVERFLOW = _counter("exporter_overflow_dropped_items", "Items dropped by a full queue", *_EXPORTER_AND_SIGNAL)
SIDE_SINK_DROPPED = _counter(
    "processor_side_sink_dropped_items", "Items that a file sink did not take", "processor", SIGNAL
)
PUSHED_BACK = _counter("exporter_pushed_back_items", "Items that senders have to send again", *_EXPORTER_AND_SIGNAL)
REJECTED = _counter(
    "exporter_partial_success_rejected_items", "Items that a destination dropped", *_EXPORTER_AND_SIGNAL
)
DEAD_LETTERS = _counter(
    "exporter_dead_letter_items", "Items refused for good, kept in files", *_EXPORTER_AND_SIGNAL, "reason"
)
DEAD_LETTERS_LOST = _counter("exporter_dead_letter_removed_items", "Dead letters that had to go", *_EXPORTER_AND_SIGNAL)
DEAD_LETTER_SIZE = _gauge("exporter_dead_letter_size", "Bytes of the dead-letter files", *_EXPORTER_AND_SIGNAL)

DAMAGED_FILES = _counter("queue_storage_damaged_files", "Queue files that were damaged at the start")
DAMAGED_REQUESTS = _counter("queue_storage_damaged_items", "Queued requests that could not be read")
MALFORMED = _counter("request_guard_refused_requests", "Requests that are no telemetry that can be taken", "reason")

FOLDER_SIZE = _gauge("folder_size", "Bytes of the files in a folder", "folder")
FOLDER_FREE = _gauge("folder_free", "Bytes free on the disk of a folder", "folder")
OWN_LOGS_DROPPED = _counter("own_logs_dropped", "Own log records that did not enter a pipeline", "reason")

_REDACTION = "processor_secret_redaction"
MASKED = _counter(f"{_REDACTION}_findings", "Secrets and personal data that were masked", "class", "signal")
CONTENT_REMOVED = _counter(f"{_REDACTION}_content_removed", "Values removed because they are content", "signal")
DROPPED_BY_REDACTION = _counter(f"{_REDACTION}_dropped", "What could not be scanned", "reason", "signal")

BUDGET_SHARE = _gauge("trace_budget_percentage", "Percentage of the traces that a policy keeps now", "policy")
BUDGET_TRACES = _counter("trace_budget_traces", "Traces that a policy decided", "policy", "decision")
BUDGET_SPANS = _counter("trace_budget_spans", "Spans of the traces that a policy decided", "policy", "decision")
UNDECIDED = _gauge("processor_tail_sampling_sampling_traces_on_memory", "Traces that wait for their decision")
TOO_EARLY = _counter("processor_tail_sampling_sampling_trace_dropped_too_early", "Traces dropped before their decision")


def definitions() -> tuple[MetricDefinition, ...]:
    """Every metric of this module."""
    found: list[MetricDefinition] = []
    for value in globals().values():
        found += [
            each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, MetricDefinition)
        ]
    return tuple(found)


def of_chosen(metric: MetricDefinition, *matches: Match) -> str:
    """Return the selector of a metric of the collectors that are chosen at the top of the board."""
    return series(metric, *CHOSEN, *matches, run=None)


def per_second(metric: MetricDefinition, *keys: str, where: tuple[Match, ...] = ()) -> str:
    """Increase per second over the chosen window, by ``keys``."""
    return aggregate("sum", f"rate({of_chosen(metric, *where)}[{WINDOW}])", *keys)


def at_least_zero(expression: str, *keys: str) -> str:
    """``expression``, or one 0 where it has no series although a collector reports: that nothing happened is data too.

    ``keys`` are those by which ``expression`` is grouped; the zero carries ``none`` for each.
    """
    zero = f"0 * count({of_chosen(MEMORY)})"
    for key in keys:
        zero = f'label_replace({zero}, "{label_name(key)}", "none", "", "")'
    return f"{expression} or {zero}"


def recorded(rule: str) -> str:
    """Return the selector of a recording rule's series, for the chosen collectors."""
    return f"{rule}{{{', '.join(str(match) for match in CHOSEN)}}}"
