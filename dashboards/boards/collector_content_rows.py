"""Rows of the board about the collectors: what is removed, what is sampled, what they log."""

from __future__ import annotations

from dashboards.boards.collector_lines import by, lines
from dashboards.lib import collector, panels, search
from dashboards.lib.collector import INSTANCE, at_least_zero, of_chosen, per_second
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import aggregate
from dashboards.lib.queries import LokiQuery, PromQuery

REMOVED = Row(
    "What is removed",
    (
        lines(
            "Secrets and personal data masked, by class",
            "Masked values per second. A class that jumps: a program has begun to leak (rotate the secret), or a rule "
            "matches what is none; runbook CollectorRedactionJump.",
            [by(collector.MASKED, "class")],
        ),
        lines(
            "Content removed",
            "Values per second that were taken out because they hold prompts, completions, tool arguments or "
            "results. 0 "
            "under load: content is let through, or nobody captures it.",
            [by(collector.CONTENT_REMOVED, "signal")],
        ),
        lines(
            "Dropped by redaction, by reason",
            "What could not be scanned per second, and so was dropped rather than let through. Not 0: runbook "
            "CollectorDroppedByRedaction.",
            [by(collector.DROPPED_BY_REDACTION, "reason", "signal")],
        ),
    ),
)

SAMPLING = Row(
    "What is sampled",
    (
        lines(
            "Share kept now, by policy",
            "Percentage of its traces that a policy keeps, after the budget. A line that falls: more spans arrive "
            "than the "
            "budget allows; steps, errors and forced traces are kept whatever it says.",
            [
                PromQuery(
                    at_least_zero(
                        aggregate("min", of_chosen(collector.BUDGET_SHARE), INSTANCE, "policy"), INSTANCE, "policy"
                    ),
                    legend=shown(INSTANCE, "policy"),
                )
            ],
            unit="none",
        ),
        lines(
            "Traces decided",
            "Traces per second by the policy that decided, and what it decided. The policies and what they mean: "
            "docs/collector-sampling.md.",
            [by(collector.BUDGET_TRACES, "policy", "decision")],
        ),
        lines(
            "Traces undecided",
            "Traces in memory that wait for their decision, and those that had to go before it (lost, per second). "
            "Lost "
            "ones: raise num_traces and the memory, or lower the wait.",
            [
                PromQuery(
                    at_least_zero(aggregate("max", of_chosen(collector.UNDECIDED), INSTANCE), INSTANCE),
                    legend=f"{shown(INSTANCE)} waiting",
                ),
                PromQuery(at_least_zero(per_second(collector.TOO_EARLY)), legend="lost"),
            ],
            unit="short",
        ),
    ),
)

LOGS = Row(
    "What collectors log",
    (
        Cell(
            panels.timeseries(
                "Own log records, by severity",
                "Records per minute. A collector in trouble says so here first; a component repeats itself at most "
                "once a "
                "delivery, so that a dead destination cannot flood it.",
                [
                    LokiQuery(
                        f"sum by ({search.SEVERITY}) (count_over_time({search.collector_logs()} [1m]))",
                        legend=f"{{{{{search.SEVERITY}}}}}",
                    )
                ],
                unit="short",
                minimum=0,
            ),
            width=8,
            height=10,
        ),
        Cell(
            panels.logs(
                "Own logs",
                "What the chosen collectors say about themselves, masked like everything else; a record's details "
                "name the "
                "component.",
                LokiQuery(search.collector_logs()),
            ),
            width=16,
            height=10,
        ),
    ),
)
