"""Rows of the run overview: pace and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import links, panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import label_name, shown
from dashboards.lib.promql import (
    buckets,
    quantile,
    rate,
)
from dashboards.lib.queries import LokiQuery, PromQuery
from otel_rl.semconv import attributes, events, metrics, spans

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

_STEP_TRACES = links.traces("Step traces of the run", search.named(spans.RL_LOOP))


def _share_of_step(phase: MetricDefinition, legend: str) -> PromQuery:
    """Share of a rank's step that it spends in a phase, averaged over the ranks; 0 for a phase that it never enters."""
    busy = f"avg({rate(phase, attributes.RL_RANK, part='sum')})"
    total = f"avg({rate(metrics.RL_LOOP_DURATION, attributes.RL_RANK, part='sum')})"
    return PromQuery(f"{busy} / {total} or 0 * {total}", legend=legend)


PACE = Row(
    "Pace",
    (
        Cell(
            panels.timeseries(
                "Step time",
                "Half of the iterations, and 19 of 20, took less than this. p95 far above p50: single slow steps "
                "(evaluation, checkpoints, long samples); both rising: every step. A dot is one step: it leads to its "
                "trace.",
                [
                    PromQuery(quantile(0.5, metrics.RL_LOOP_DURATION), legend="p50", exemplar=True),
                    PromQuery(quantile(0.95, metrics.RL_LOOP_DURATION), legend="p95", exemplar=True),
                ],
                unit="s",
                minimum=0,
                links=[_STEP_TRACES],
            )
        ),
        Cell(
            panels.heatmap(
                "Step time, all steps",
                "How many iterations took how long. Two bands are two kinds of step; a band that climbs is a "
                "slow-down. A dot leads to the trace of that step.",
                PromQuery(buckets(metrics.RL_LOOP_DURATION), legend="{{le}}", format="heatmap", exemplar=True),
                unit="s",
            )
        ),
        Cell(
            panels.timeseries(
                "Share of the step, by phase",
                "Where an iteration goes, averaged over the ranks. A phase may contain another (TRL scores within "
                "sampling), so the lines do not add up. Sampling grows: longer samples or a slower engine; sync grows: "
                "weight transfer.",
                [
                    _share_of_step(metrics.RL_SAMPLE_DURATION, "sample"),
                    _share_of_step(metrics.RL_REWARD_DURATION, "reward"),
                    _share_of_step(metrics.RL_TRAIN_DURATION, "train"),
                    _share_of_step(metrics.RL_SYNC_DURATION, "sync"),
                ],
                unit="percentunit",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Time in parts of the phases",
                "Seconds per second and rank in generation, forward, backward, optimizer, data wait, checkpoint and "
                "so on. Data wait above a few percent: the input pipeline is too slow; checkpoint peaks: slow storage.",
                [
                    PromQuery(
                        f"avg by ({label_name(attributes.RL_PHASE)}) "
                        f"({rate(metrics.RL_PHASE_DURATION, attributes.RL_PHASE, attributes.RL_RANK, part='sum')})",
                        legend=shown(attributes.RL_PHASE),
                    )
                ],
                unit="percentunit",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Tokens per second",
                "Tokens trained on per second, all ranks. Falls with step time unchanged: samples became shorter.",
                [PromQuery(rate(metrics.RL_TRAIN_TOKENS), legend="tokens/s")],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Samples per second",
                "Samples made per second, all ranks. Falls while tokens per second hold: samples became longer.",
                [PromQuery(rate(metrics.RL_SAMPLE_SAMPLES), legend="samples/s")],
                unit="cps",
                minimum=0,
            )
        ),
    ),
)


RECORDS = Row(
    "Records",
    (
        Cell(
            panels.logs(
                "Step records",
                "One record per log call of the trainer with its exact values, also those that are not finite. The "
                "way to the step's trace is in the record's details.",
                LokiQuery(search.events(events.RL_STEP)),
            ),
            width=14,
            height=10,
        ),
        Cell(
            panels.logs(
                "Processes: started, ended, died",
                "Begin and end of each process of the run, and exceptions that ended one, with rank and last step. A "
                "start without an end: the process was killed.",
                LokiQuery(search.events(events.RL_RUN_START, events.RL_RUN_END, events.RL_PROCESS_EXCEPTION)),
            ),
            width=10,
            height=10,
        ),
    ),
)
