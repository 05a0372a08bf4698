"""What a list of runs shows of one export: a few metrics, and the records of one event."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.lines import parse
from otel_rl.store.reader.otlp_values import items_of
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader.records import Point

NAMES = frozenset(
    {
        metrics.RL_LOOP_CURRENT.name,
        metrics.RL_LOOP_DURATION.name,
        metrics.RL_ENVIRONMENT_REWARD_MEAN.name,
        metrics.RL_TRAIN_LOSS.name,
        metrics.RL_HEALTH.name,
    }
)
#: Around the log records of a line, and how one begins and ends, as the file store writes them.
_RECORDS, _RECORD, _END = b'"logRecords":[', b'{"body":', b"]}]}]}"


@dataclass(slots=True)
class LastMetrics:
    """What the last export of metrics says; None for what it does not."""

    step: int | None = None
    steps: int | None = None
    reward: float | None = None
    loss: float | None = None
    #: Code of a health rule -> its state: 1 is a warning, 2 is critical.
    health: dict[str, int] = field(default_factory=dict)

    def add(self, point: Point) -> None:
        """Take in a point of a metric of :data:`NAMES`; others are ignored."""
        if point.metric == metrics.RL_HEALTH.name:
            self.health[str(point.attributes.get(names.RL_HEALTH_CODE))] = _whole(point)
        elif point.metric == metrics.RL_LOOP_CURRENT.name:
            self.step = max(self.step or 0, _whole(point))
        elif point.metric == metrics.RL_LOOP_DURATION.name:
            self.steps = (self.steps or 0) + point.count
        elif point.metric == metrics.RL_TRAIN_LOSS.name:
            self.loss = point.value
        elif point.metric == metrics.RL_ENVIRONMENT_REWARD_MEAN.name:
            self.reward = point.value


def parsed(line: bytes, event: str = events.RL_RUN_END.name) -> dict[str, Any] | None:
    """Return the request of a line, with metrics of :data:`NAMES` and log records of ``event`` only."""
    request = parse(_with_last(line, event), Unreadable()) or parse(line, Unreadable())
    for entry in items_of(request, "resourceMetrics"):
        for scoped in items_of(entry, "scopeMetrics"):
            scoped["metrics"] = [metric for metric in items_of(scoped, "metrics") if metric.get("name") in NAMES]
    for entry in items_of(request, "resourceLogs"):
        for scoped in items_of(entry, "scopeLogs"):
            scoped["logRecords"] = [log for log in items_of(scoped, "logRecords") if log.get("eventName") == event]
    return request


def each_parsed(line: bytes, event: str) -> Iterator[dict[str, Any]]:
    """Yield requests with the log records of ``event`` in a line, the last one first; all in one of another form."""
    place, name = len(line), b'"eventName":"%b"}' % event.encode()
    while (place := line.rfind(name, 0, place)) >= 0:
        request = parse(_with_last(line[: place + len(name)], event), Unreadable())
        if request is None:
            break
        yield request
    else:
        if name in line:
            return
    whole = parsed(line, event)
    if whole is not None:
        yield whole


def _with_last(line: bytes, event: str) -> bytes:
    """Return the line with nothing but its last record of ``event``; empty where it has another form than ours.

    Parsing all records would take most of the time of a list. In a text quotes have a backslash before them, so that
    none of these places can be made up.
    """
    name = b'"eventName":"%b"}' % event.encode()
    end, begin = line.rfind(name), line.find(_RECORDS)
    start = line.rfind(_RECORD, 0, max(end, 0))
    if begin < 0 or start < begin:
        return b""
    return line[: begin + len(_RECORDS)] + line[start : end + len(name)] + _END


def _whole(point: Point) -> int:
    return round(point.value) if math.isfinite(point.value) else 0
