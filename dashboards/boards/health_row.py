"""Row of the run overview: what the health rules say, since when, and with which evidence."""

from __future__ import annotations

from dashboards.lib import panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.panels import BLUE, GREEN, ORANGE, RED
from dashboards.lib.promql import by, recorded
from dashboards.lib.queries import LokiQuery, PromQuery
from dashboards.rules.health import CRITICAL, HEALTH, HEALTHY, UNOBSERVED, WARNING
from otel_rl.semconv import attributes, events

_STATES = {
    UNOBSERVED: ("unobserved", BLUE),
    HEALTHY: ("healthy", GREEN),
    WARNING: ("warning", ORANGE),
    CRITICAL: ("critical", RED),
}

HEALTH_ROW = Row(
    "Health",
    (
        Cell(
            panels.state_timeline(
                "Health, by rule",
                "What each rule says of the run. Unobserved: an input is missing or there were too few steps, which "
                "never means healthy. Warning or critical: the record beside has the first step and the evidence; the "
                "alert of the rule has a runbook. A cause is often orange before its symptoms are.",
                PromQuery(
                    f"max {by(attributes.RL_HEALTH_CODE)} ({recorded(HEALTH.name)})",
                    legend=shown(attributes.RL_HEALTH_CODE),
                ),
                states=_STATES,
            ),
            width=14,
            height=11,
        ),
        Cell(
            panels.logs(
                "What has changed",
                "One record for each change of a rule, with first step, metric, value, threshold and what to look at "
                "next. Slow ranks, tools and servers: the other boards, from the moment of the first record on.",
                LokiQuery(
                    search.events(events.RL_HEALTH_CHANGED),
                    empty_when="every rule is healthy or unobserved",
                ),
            ),
            width=10,
            height=11,
        ),
    ),
)
