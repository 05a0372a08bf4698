"""Signals about the collectors themselves: nothing else tells that a board shows less than there was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import collector
from dashboards.lib.collector import EXPORTER, OF_A_COLLECTOR, ROLE, SIGNAL, WHO
from dashboards.lib.promql import Match, by, increased, remembered, series
from dashboards.lib.rules import RecordingRule, RuleGroup

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

_WHO = by(*WHO)
_QUEUE = by(*WHO, EXPORTER, SIGNAL)
_ON_QUEUE = _QUEUE.replace("by", "on", 1)
_ON_WHO = _WHO.replace("by", "on", 1)

#: Counters of single events are looked at over this window, so that an alert stays visible for as long.
EVENTS = "15m"
_SECONDS = 900
#: What is usual is the mean of this much time.
USUAL = "1d"


def _of(metric: MetricDefinition, *matches: Match) -> str:
    return series(metric, OF_A_COLLECTOR, *matches, run=None)


def _increase(metric: MetricDefinition, window: str, *matches: Match) -> str:
    return increased(_of(metric, *matches), window)


def _events(*metrics: MetricDefinition | tuple[MetricDefinition, Match] | tuple[MetricDefinition, Match, Match]) -> str:
    """How often any of the metrics, or of their series that match, counted within the window, by collector."""
    chosen = [metric if isinstance(metric, tuple) else (metric,) for metric in metrics]
    each = [f"sum {_WHO} ({_increase(metric, EVENTS, *matches)})" for metric, *matches in chosen]
    up = f"0 * max {_WHO} ({_of(collector.UPTIME)})"
    return f" + {_ON_WHO} ".join(f"({expression} or {up})" for expression in each)


SEEN = RecordingRule(
    name="otelcol:collector:seen_seconds",
    description="When a collector was heard last, for a day; then it counts as taken away on purpose",
    expr=remembered("otelcol:collector:seen_seconds", f"max {_WHO} (timestamp({_of(collector.UPTIME)}))"),
)
SILENCE = RecordingRule(
    name="otelcol:collector:silence_seconds",
    description="How long a collector has been silent",
    expr=f"time() - {SEEN.name}",
)
RESTARTS = RecordingRule(
    name="otelcol:collector:restarts",
    description="How often a collector began anew within an hour",
    expr=f"sum {_WHO} (resets({_of(collector.UPTIME)}[1h]))",
)
UNREACHABLE = RecordingRule(
    name="otelcol:exporter:unhealthy",
    description="1 while nothing that an exporter sends gets through",
    expr=f"max {_QUEUE} ({_of(collector.UNHEALTHY)})",
)
_STUCK = f"max {_QUEUE} ({_of(collector.OLDEST)})"
_LATE = f"max {_QUEUE} ({_of(collector.SEND_LAG)})"
QUEUE_AGE = RecordingRule(
    name="otelcol:exporter:queue_age_seconds",
    description="How old what an exporter delivers, or cannot deliver, is",
    expr=f"({_STUCK} > {_ON_QUEUE} {_LATE}) or {_LATE} or {_STUCK}",
)
QUEUE_FILL = RecordingRule(
    name="otelcol:exporter:queue_fill",
    description="Share of its bound that a queue has reached",
    expr=f"max {_QUEUE} ({_of(collector.QUEUE_SIZE)}) / {_ON_QUEUE} max {_QUEUE} ({_of(collector.QUEUE_CAPACITY)} > 0)",
)
# The queue's file never shrinks: what it holds beyond the queued bytes is room as well.
_QUEUE_FOLDER = Match("folder", "queue")
_QUEUED = f"sum {_WHO} ({_of(collector.QUEUE_SIZE)})"
_BOUND = f"sum {_WHO} ({_of(collector.QUEUE_CAPACITY)})"
_FREE = f"max {_WHO} ({_of(collector.FOLDER_FREE, _QUEUE_FOLDER)})"
_FILE = f"max {_WHO} ({_of(collector.FOLDER_SIZE, _QUEUE_FOLDER)})"
DISK_ROOM = RecordingRule(
    name="otelcol:collector:disk_room",
    description="Room on the disk of the queues, as a share of what the queues may still take",
    expr=(
        f"({_FREE} + {_ON_WHO} clamp_min({_FILE} - {_ON_WHO} {_QUEUED}, 0)) / {_ON_WHO} ({_BOUND} - {_ON_WHO} "
        f"{_QUEUED} > 0)"
    ),
    empty_when="the queues are in memory",
)
# A file exporter counts what it does not take as failed. The processor side_sink before it counts the same items where
# it drops them. Where it pushes back, the senders keep them, as they keep what the queue of a stock exporter does not
# take. The traces of a gateway are the exception: the sampler took them, no sender has them any more, and every failure
# is a loss. Our own exporters count what becomes of the items that their queues do not take.
_FILES = "line_file(/.*)?"
_SPANS_FAILED, _SPANS_NOT_QUEUED = collector.SEND_FAILED[0], collector.NOT_QUEUED[0]
_LOST_AT_SINKS = (
    (collector.SIDE_SINK_DROPPED, Match(SIGNAL, "traces", "!=")),
    (collector.SIDE_SINK_DROPPED, Match(SIGNAL, "traces"), Match(ROLE, "gateway", "!=")),
    (_SPANS_FAILED, Match(EXPORTER, _FILES, "=~"), Match(ROLE, "gateway")),
    (_SPANS_NOT_QUEUED, Match(EXPORTER, "durable_.*", "!~"), Match(ROLE, "gateway")),
)
LOST = RecordingRule(
    name="otelcol:collector:lost_items",
    description="What was lost within a quarter of an hour: by a full queue, given up, rejected, undecided, damaged",
    expr=_events(
        collector.OVERFLOW,
        *_LOST_AT_SINKS,
        collector.REJECTED,
        collector.DEAD_LETTERS_LOST,
        collector.TOO_EARLY,
        collector.DAMAGED_REQUESTS,
        *((failed, Match(EXPORTER, _FILES, "!~")) for failed in collector.SEND_FAILED),
    ),
)
PUSHED_BACK = RecordingRule(
    name="otelcol:collector:pushed_back_items",
    description="What was refused to senders within a quarter of an hour",
    expr=_events(*collector.REFUSED, collector.MALFORMED),
)
LIMITED = RecordingRule(
    name="otelcol:collector:memory_refused_items",
    description="Items and whole requests refused to save memory within a quarter of an hour",
    expr=_events(*collector.LIMITED, (collector.MALFORMED, Match("reason", "memory"))),
)
DEAD_LETTERS = RecordingRule(
    name="otelcol:collector:dead_letters",
    description="Items that a destination refused for good within a quarter of an hour; they lie in files",
    expr=_events(collector.DEAD_LETTERS),
)
UNSCANNED = RecordingRule(
    name="otelcol:collector:dropped_by_redaction",
    description="Values and items that could not be scanned and were dropped within a quarter of an hour",
    expr=_events(collector.DROPPED_BY_REDACTION),
)
_CLASS = by(*WHO, "class")
_ON_CLASS = _CLASS.replace("by", "on", 1)
# The mean is taken over the time that the collector has run: over a whole day every first hour would be a jump.
REDACTION_JUMP = RecordingRule(
    name="otelcol:collector:redaction_jump",
    description="How many times more secrets of a class are masked than usual",
    expr=f"""\
sum {_CLASS} ({_increase(collector.MASKED, EVENTS)}) / {_SECONDS}
  / {_ON_CLASS}
(
  (sum {_CLASS} ({_increase(collector.MASKED, USUAL)}) > 0)
    / {_ON_WHO} group_left ()
  (15 * max {_WHO} (count_over_time({_of(collector.UPTIME)}[{USUAL}:15s])))
)
""",
    empty_when="nothing was masked",
)
#: A few secrets more are no jump.
DOZENS = f"and {_ON_CLASS} (sum {_CLASS} ({_increase(collector.MASKED, EVENTS)}) >= 50)"
_POLICY = by(*WHO, "policy")
_ON_POLICY = _POLICY.replace("by", "on", 1)
SAMPLED_SHARE = RecordingRule(
    name="otelcol:collector:sampled_share",
    description="Share of traces that a policy keeps now, of what it kept at best within a day",
    expr=f"""\
max {_POLICY} ({_of(collector.BUDGET_SHARE)})
  / {_ON_POLICY}
(max {_POLICY} (max_over_time({_of(collector.BUDGET_SHARE)}[{USUAL}])) > 0)
""",
)

_SIGNALS = (
    SEEN,
    SILENCE,
    RESTARTS,
    UNREACHABLE,
    QUEUE_AGE,
    QUEUE_FILL,
    DISK_ROOM,
    LOST,
    PUSHED_BACK,
    LIMITED,
    DEAD_LETTERS,
    UNSCANNED,
    REDACTION_JUMP,
    SAMPLED_SHARE,
)
GROUPS = (RuleGroup("otel-rl-collector", _SIGNALS),)
