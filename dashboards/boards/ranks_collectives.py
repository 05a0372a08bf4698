"""Ranks and collectives: which rank makes the others wait, and in which operation the time goes."""

from __future__ import annotations

from dashboards.boards.annotations import FIRING_ALERTS
from dashboards.boards.hang_rows import HANGS
from dashboards.boards.pressure_rows import PRESSURE
from dashboards.boards.rank_rows import COLLECTIVES, SKEW
from dashboards.boards.run_selector import RUN
from dashboards.lib import links, panels, search
from dashboards.lib.layout import Board, Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.panels import column
from dashboards.lib.promql import CHOSEN_RANKS, by
from dashboards.lib.queries import LokiQuery, TempoQuery
from dashboards.lib.variables import RANK, SLOWER_THAN, WINDOW
from otel_rl.semconv import attributes, spans

_LEGEND = f"rank {shown(attributes.RL_RANK)}"
_BY_RANK = by(attributes.RL_RANK)

_TRACES = Row(
    "Steps and logs",
    (
        Cell(
            panels.table(
                "Step traces",
                "Iterations of the run that took at least the time chosen at the top; each trace holds all ranks and "
                "phases of one step. Open the slowest and look which rank's phase ends last.",
                [
                    TempoQuery(
                        search.traces_of_run(search.named(spans.RL_LOOP), "duration >= ${slower_than}"), table="traces"
                    )
                ],
                unit="none",
                overrides=[column("traceID", links=links.TRACE_LINKS)],
                sort_by="Duration",
            ),
            width=12,
            height=10,
        ),
        Cell(
            panels.table(
                "Steps of each rank",
                "One row per rank and step with its collectives: calls, bytes, seconds launching and waiting. In one "
                "step, the rank with the least waiting came last. The slowest collectives are events of the span. "
                "Where *unseen* is not empty, so many collectives at least are missing in these figures.",
                [
                    TempoQuery(
                        search.traces_of_run(
                            search.named(spans.RL_RANK_STEP),
                            "duration >= ${slower_than}",
                            show=(
                                attributes.RL_RANK,
                                attributes.RL_LOOP_ITERATION,
                                attributes.TORCH_DISTRIBUTED_CALLS,
                                attributes.TORCH_DISTRIBUTED_BYTES,
                                attributes.TORCH_DISTRIBUTED_HOST_TIME,
                                attributes.TORCH_DISTRIBUTED_WAIT_TIME,
                                attributes.TORCH_DISTRIBUTED_UNSEEN,
                            ),
                        )
                    )
                ],
                unit="none",
                sort_by="Duration",
            ),
            width=12,
            height=10,
        ),
        Cell(
            panels.timeseries(
                "Log records, by rank",
                "Records per minute of each rank. Each writes one when it begins and one when it ends; in between only "
                "rank 0 writes regularly, for the trainer. More than that: errors, or the program's own log.",
                [
                    LokiQuery(
                        f"sum {_BY_RANK} (count_over_time({search.logs(CHOSEN_RANKS)} [1m]))",
                        legend=_LEGEND,
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
                "Logs of the chosen ranks",
                "What the chosen ranks logged. Choose one rank at the top to read it alone; a record's details lead "
                "to the trace it was logged in.",
                LokiQuery(search.logs(CHOSEN_RANKS)),
            ),
            width=16,
            height=10,
        ),
    ),
)

BOARD = Board(
    name="ranks-collectives",
    title="otel-rl / Ranks and collectives",
    description="Which rank makes the others wait or hangs, where collectives take time, memory, pauses and traces.",
    variables=(RUN, RANK, WINDOW, SLOWER_THAN),
    rows=(SKEW, HANGS, COLLECTIVES, PRESSURE, _TRACES),
    annotations=(FIRING_ALERTS,),
)
