"""Rows of the board about the collectors: the way of the data, queues and disks."""

from __future__ import annotations

from dashboards.boards.collector_lines import by, each_signal, lines
from dashboards.lib import collector
from dashboards.lib.collector import EXPORTER, INSTANCE, SIGNAL, at_least_zero, of_chosen, per_second, recorded
from dashboards.lib.layout import Row
from dashboards.lib.names import shown
from dashboards.lib.panels import GREEN, RED, steps
from dashboards.lib.promql import aggregate
from dashboards.lib.queries import PromQuery
from dashboards.rules import collector_signals as rules

_QUEUE = (INSTANCE, EXPORTER, SIGNAL)


def _queue(rule: str) -> PromQuery:
    return PromQuery(at_least_zero(aggregate("max", recorded(rule), *_QUEUE), *_QUEUE), legend=shown(*_QUEUE))


_MALFORMED = lines(
    "Malformed requests, by reason",
    "Requests per second that are no telemetry that can be taken: nested too deep, another signal, an old OTLP. "
    "Senders do not repeat them; the answer that they got says what to change.",
    [by(collector.MALFORMED, "reason")],
)
_DAMAGED = lines(
    "Damaged queue files",
    "Files that were damaged at a start, and requests in them that could not be read. Not 0: a crash of the machine, "
    "or a disk that fails; what was taken out lies beside the queue.",
    [
        PromQuery(at_least_zero(per_second(collector.DAMAGED_FILES)), legend="files"),
        PromQuery(at_least_zero(per_second(collector.DAMAGED_REQUESTS)), legend="requests"),
    ],
)

FLOW = Row(
    "What passes",
    (
        lines(
            "Taken",
            "Items per second that receivers took from senders. Falls while the run goes on: look at Refused, then at "
            "the senders' own drops on the run overview.",
            each_signal(collector.ACCEPTED),
        ),
        lines(
            "Delivered",
            "Items per second that destinations took. Below Taken for longer than a queue drains: something is "
            "sampled, "
            "removed, queued or lost; the panels below say which.",
            each_signal(collector.SENT),
        ),
        lines(
            "Refused",
            "Items per second that receivers refused, so that senders keep them and try again. Not 0: a queue is "
            "full or "
            "memory is short; runbook CollectorRefusing.",
            each_signal(collector.REFUSED),
        ),
        lines(
            "Refused to save memory",
            "Items per second that the memory limiter refused. Not 0: give the collector more memory, or find who "
            "sends "
            "so much; runbook CollectorOutOfMemory.",
            each_signal(collector.LIMITED),
        ),
        lines(
            "Requests not taken, by reason",
            "Requests per second that a destination did not take. unavailable: it is down or slow; refused and "
            "too_large: "
            "it will never take them, and they become dead letters.",
            [by(collector.FAILED_REQUESTS, EXPORTER, SIGNAL, "reason")],
        ),
        lines(
            "Dead letters, by reason",
            "Items per second that a destination refused for good; they lie in files and can be sent again. Read one "
            "to "
            "see why; runbook CollectorDeadLetters.",
            [by(collector.DEAD_LETTERS, EXPORTER, SIGNAL, "reason")],
        ),
        _MALFORMED,
    ),
)

QUEUES = Row(
    "Queues and disks",
    (
        lines(
            "Queue fill",
            "Share of its bound that each queue has reached. Above the line the alert fires, early enough to bring the "
            "destination back before senders are refused.",
            [_queue(rules.QUEUE_FILL.name)],
            unit="percentunit",
            thresholds=steps(GREEN, (0.5, RED)),
        ),
        lines(
            "Age of what is delivered",
            "Seconds between an item's time and its delivery, or for how long the oldest request has failed. Boards "
            "show "
            "the past by this much; after an outage it falls while the queue drains.",
            [_queue(rules.QUEUE_AGE.name)],
            unit="s",
            thresholds=steps(GREEN, (600, RED)),
        ),
        lines(
            "Room for the queues",
            "Room on the disk as a share of what the queues may still take. Below 1 the disk is full before the queues "
            "are, and then nothing more is kept: free it, or bound the queues lower.",
            [
                PromQuery(
                    at_least_zero(aggregate("min", recorded(rules.DISK_ROOM.name), INSTANCE), INSTANCE),
                    legend=shown(INSTANCE),
                )
            ],
            unit="percentunit",
            thresholds=steps(RED, (1.1, GREEN)),
        ),
        lines(
            "Files of the collector",
            "Bytes in each folder that the collector writes to. A queue's file keeps its largest size; look at the "
            "fill "
            "for what waits.",
            [
                PromQuery(
                    at_least_zero(
                        aggregate("max", of_chosen(collector.FOLDER_SIZE), INSTANCE, "folder"), INSTANCE, "folder"
                    ),
                    legend=shown(INSTANCE, "folder"),
                ),
                PromQuery(
                    at_least_zero(aggregate("max", of_chosen(collector.DEAD_LETTER_SIZE), INSTANCE), INSTANCE),
                    legend=f"{shown(INSTANCE)} dead letters",
                ),
            ],
            unit="bytes",
        ),
        lines(
            "Memory",
            "Resident memory of each collector. A saw tooth is normal; a ramp is not: most of it is undecided traces "
            "(gateway) and what is in flight.",
            [PromQuery(aggregate("max", of_chosen(collector.MEMORY), INSTANCE), legend=shown(INSTANCE))],
            unit="bytes",
        ),
        lines(
            "Processor time",
            "Cores in use by each collector. At its limit it falls behind: add a gateway, or sample harder before it.",
            [PromQuery(per_second(collector.CPU, INSTANCE), legend=shown(INSTANCE))],
            unit="none",
        ),
        _DAMAGED,
    ),
)
