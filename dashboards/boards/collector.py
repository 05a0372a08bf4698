"""The collectors: do they take, remove, keep and deliver what they should?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboards.boards.annotations import COLLECTOR_ALERTS, FIRING_COLLECTOR_ALERTS
from dashboards.boards.collector_content_rows import LOGS, REMOVED, SAMPLING
from dashboards.boards.collector_rows import FLOW, QUEUES
from dashboards.lib import collector, panels
from dashboards.lib.collector import INSTANCE, at_least_zero, of_chosen, recorded
from dashboards.lib.layout import Board, Cell, Row
from dashboards.lib.panels import GREEN, ORANGE, RED, steps
from dashboards.lib.promql import aggregate
from dashboards.lib.queries import PromQuery
from dashboards.lib.variables import INSTANCE as INSTANCE_VARIABLE
from dashboards.lib.variables import ROLE, WINDOW
from dashboards.rules import collector_signals as rules

if TYPE_CHECKING:
    from dashboards.lib.rules import RecordingRule

_NONE_IS_GOOD = steps(GREEN, (1, RED))


def _now(
    title: str, description: str, expr: str, unit: str = "short", thresholds: dict[str, Any] | None = None
) -> Cell:
    query = PromQuery(expr, instant=True)
    return Cell(panels.stat(title, description, query, unit=unit, thresholds=thresholds), width=3, height=4)


def _worst(rule: RecordingRule, function: str = "max") -> str:
    return at_least_zero(aggregate(function, recorded(rule.name)))


_NOW = Row(
    "Now",
    (
        _now(
            "Collectors reporting",
            "Collectors whose own metrics came in the last minutes. Fewer than there are: runbook CollectorAbsent.",
            f"count(count by ({INSTANCE}) ({of_chosen(collector.MEMORY)}))",
        ),
        _now(
            "Alerts firing",
            "Alerts about collectors that fire now. Not 0? Open the alert; its runbook says what to do.",
            f"count({COLLECTOR_ALERTS}) or 0 * count({of_chosen(collector.MEMORY)})",
            thresholds=_NONE_IS_GOOD,
        ),
        _now(
            "Destinations unreachable",
            "Queues whose exporter gets nothing through. Not 0: what arrives waits; runbook "
            "CollectorBackendUnreachable.",
            at_least_zero(f"count({recorded(rules.UNREACHABLE.name)} > 0)"),
            thresholds=_NONE_IS_GOOD,
        ),
        _now(
            "Fullest queue",
            "Share of its bound that the fullest queue has reached. Growing: its destination takes too little.",
            _worst(rules.QUEUE_FILL),
            "percentunit",
            steps(GREEN, (0.25, ORANGE), (0.5, RED)),
        ),
        _now(
            "Oldest delivery",
            "Age of what is delivered late, or cannot be. The boards show the past by this much.",
            _worst(rules.QUEUE_AGE),
            "s",
            steps(GREEN, (60, ORANGE), (600, RED)),
        ),
        _now(
            "Lost",
            "Items lost within a quarter of an hour, for whatever reason. Not 0: runbook CollectorLosingData.",
            _worst(rules.LOST, "sum"),
            thresholds=_NONE_IS_GOOD,
        ),
        _now(
            "Dead letters",
            "Items refused for good within a quarter of an hour; they lie in files. Not 0: runbook "
            "CollectorDeadLetters.",
            _worst(rules.DEAD_LETTERS, "sum"),
            thresholds=steps(GREEN, (1, ORANGE)),
        ),
        _now(
            "Restarts",
            "Starts within an hour of the collector that started most often. Not 0 and nobody did it: runbook "
            "CollectorRestarting.",
            _worst(rules.RESTARTS),
            thresholds=steps(GREEN, (1, ORANGE), (3, RED)),
        ),
    ),
)

BOARD = Board(
    name="collector",
    title="otel-rl / Collectors",
    description="Do the collectors take, remove, keep and deliver what they should? Empty boards start here.",
    variables=(ROLE, INSTANCE_VARIABLE, WINDOW),
    rows=(_NOW, FLOW, QUEUES, REMOVED, SAMPLING, LOGS),
    annotations=(FIRING_COLLECTOR_ALERTS,),
    data_sources=("prom", "loki"),
)
