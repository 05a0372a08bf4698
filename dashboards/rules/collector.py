"""Alerts about the collectors themselves, each on one signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib.collector import EXPORTER, INSTANCE, ROLE, SIGNAL
from dashboards.lib.names import alert_label
from dashboards.lib.rules import AlertRule, RuleGroup
from dashboards.rules.collector_signals import (
    DEAD_LETTERS,
    DISK_ROOM,
    DOZENS,
    LIMITED,
    LOST,
    PUSHED_BACK,
    QUEUE_AGE,
    QUEUE_FILL,
    REDACTION_JUMP,
    RESTARTS,
    SAMPLED_SHARE,
    SILENCE,
    UNREACHABLE,
    UNSCANNED,
)

if TYPE_CHECKING:
    from dashboards.lib.rules import RecordingRule

_BOARD = "otel-rl-collector"
_NAME = f"The {alert_label(ROLE)} {alert_label(INSTANCE)}"


def _alert(
    name: str, signal: RecordingRule, condition: str, wait: str, what: str, why: str, severity: str = "warning"
) -> AlertRule:
    return AlertRule(
        name=name,
        signal=signal.name,
        condition=condition,
        wait=wait,
        severity=severity,
        summary=f"{_NAME} {what}",
        description=why,
        board=_BOARD,
        subject=INSTANCE,
    )


_TO = f"{alert_label(EXPORTER)} ({alert_label(SIGNAL)})"

ALERTS = (
    _alert(
        "CollectorAbsent",
        SILENCE,
        "> 300",
        "1m",
        "is silent",
        "No own metrics for {{ $value | humanizeDuration }}: it is down, cut off, or what it sends does not arrive.",
        "critical",
    ),
    _alert(
        "CollectorRestarting",
        RESTARTS,
        ">= 3",
        "1m",
        "keeps restarting",
        "{{ $value | humanize }} starts within an hour: it is killed, or it fails and is started again.",
    ),
    _alert(
        "CollectorBackendUnreachable",
        UNREACHABLE,
        "> 0",
        "2m",
        f"cannot deliver to {_TO}",
        "Nothing gets through (signal {{ $value }}); what arrives meanwhile waits in the queue, whose size is its "
        "limit.",
        "critical",
    ),
    _alert(
        "CollectorQueueOld",
        QUEUE_AGE,
        "> 600",
        "5m",
        f"delivers late to {_TO}",
        "What it delivers, or cannot deliver, is {{ $value | humanizeDuration }} old: boards show the past.",
    ),
    _alert(
        "CollectorQueueFilling",
        QUEUE_FILL,
        "> 0.5",
        "1m",
        f"has half filled its queue to {_TO}",
        "The queue is at {{ $value | humanizePercentage }} of its bound; when it is full senders are refused.",
    ),
    _alert(
        "CollectorDiskTooSmall",
        DISK_ROOM,
        "< 1.1",
        "1m",
        "has too little disk for its queues",
        "The disk has room for {{ $value | humanizePercentage }} of what the queues may still take: it will be full "
        "before they are, and then nothing more is queued.",
        "critical",
    ),
    _alert(
        "CollectorLosingData",
        LOST,
        "> 0",
        "1m",
        "loses data",
        "About {{ $value | humanize }} items were lost within a quarter of an hour; boards and reports lack them.",
        "critical",
    ),
    _alert(
        "CollectorRefusing",
        PUSHED_BACK,
        "> 0",
        "5m",
        "refuses data",
        "About {{ $value | humanize }} items were refused within a quarter of an hour; their senders keep them for a "
        "while.",
    ),
    _alert(
        "CollectorOutOfMemory",
        LIMITED,
        "> 0",
        "2m",
        "refuses data to save memory",
        "The memory limiter refused about {{ $value | humanize }} items within a quarter of an hour.",
    ),
    _alert(
        "CollectorDeadLetters",
        DEAD_LETTERS,
        "> 0",
        "1m",
        "writes dead letters",
        "A destination refused about {{ $value | humanize }} items for good within a quarter of an hour; they lie in "
        "files.",
    ),
    _alert(
        "CollectorRedactionJump",
        REDACTION_JUMP,
        f"> 10 {DOZENS}",
        "1m",
        f"masks far more of class {alert_label('class')} than usual",
        "{{ $value | humanize }} times the day's mean: a program has begun to leak, or a rule matches what is no "
        "secret.",
    ),
    _alert(
        "CollectorDroppedByRedaction",
        UNSCANNED,
        "> 0",
        "1m",
        "drops what it cannot scan",
        "About {{ $value | humanize }} values or items could not be scanned within a quarter of an hour and were "
        "dropped.",
    ),
    _alert(
        "CollectorSamplingCollapsed",
        SAMPLED_SHARE,
        "< 0.25",
        "10m",
        f"keeps far fewer traces of policy {alert_label('policy')}",
        "The budget holds the policy at {{ $value | humanizePercentage }} of the share that it kept within the last "
        "day.",
    ),
)

GROUPS = (RuleGroup("otel-rl-collector-alerts", ALERTS),)
