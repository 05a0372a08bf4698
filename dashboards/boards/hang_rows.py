"""Row of the ranks board: which ranks hung, which were late, and which have no flight recorder that would tell."""

from __future__ import annotations

from dashboards.lib import panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.panels import GREEN, ORANGE, steps
from dashboards.lib.promql import CHOSEN_RANKS, Match, latest
from dashboards.lib.queries import LokiQuery, PromQuery
from dashboards.lib.search import field
from otel_rl.flight_recorder.recorder import NAME as FLIGHT_RECORDER
from otel_rl.semconv import attributes, events, metrics

_LEGEND = f"rank {shown(attributes.RL_RANK)}"
_LATE_RANKS = (Match(attributes.RL_STRAGGLER_RANK, "$rank", "=~"),)
_WITHOUT_RING = (CHOSEN_RANKS, Match(attributes.RL_TELEMETRY_INSTRUMENTOR, FLIGHT_RECORDER))

#: The end of a hang has no text of its own.
_HANG_LINE = (
    f"{field(search.EVENT_NAME)} of rank {field(attributes.RL_RANK)}: {field(attributes.RL_HANG_DURATION)} s "
    "{{__line__}}"
)
_LATE_LINE = (
    f"{field(search.EVENT_NAME)}: rank {field(attributes.RL_STRAGGLER_RANK)} on {field(attributes.RL_STRAGGLER_HOST)}, "
    f"phase {field(attributes.RL_PHASE)}, {field(attributes.TORCH_DISTRIBUTED_OPERATION)}: the others lose "
    f"{field(attributes.RL_STRAGGLER_LOST_TIME)} s of each step, steps "
    f"{field(attributes.RL_STRAGGLER_FIRST_ITERATION)} to {field(attributes.RL_LOOP_ITERATION)}"
)

HANGS = Row(
    "Hangs and late ranks",
    (
        Cell(
            panels.timeseries(
                "Hangs, by rank",
                "1 while a rank makes no progress. Nearly all ranks say it, as they wait: the one that does not wait "
                "in a collective, or says nothing, is where to look. `otel-rl postmortem` names it.",
                [
                    PromQuery(
                        latest(metrics.RL_HANG_ACTIVE, attributes.RL_ROLE, attributes.RL_RANK, where=(CHOSEN_RANKS,)),
                        legend=f"{shown(attributes.RL_ROLE)} {_LEGEND}",
                    )
                ],
                unit="short",
                minimum=0,
            ),
            width=6,
            height=10,
        ),
        Cell(
            panels.logs(
                "Hangs",
                "What each rank was in when it made no progress, with the stacks of its threads, and when it went on. "
                "Read the rank whose first line names no collective.",
                LokiQuery(
                    f"{search.events(events.RL_HANG, events.RL_HANG_END, where=(CHOSEN_RANKS,))}"
                    f' | line_format "{_HANG_LINE}"',
                    empty_when="no rank hung",
                ),
            ),
            width=18,
            height=10,
        ),
        Cell(
            panels.bar_gauge(
                "Ranks without a flight recorder",
                "Ranks whose ring could not be made, at 0.5: they are in no comparison and in no postmortem. Give "
                "their node room in shared memory, or set OTEL_RL_RING_DIR.",
                PromQuery(
                    latest(metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS, attributes.RL_RANK, where=_WITHOUT_RING),
                    legend=_LEGEND,
                    instant=True,
                    empty_when="every process that trains has its ring",
                ),
                unit="short",
                thresholds=steps(ORANGE, (1, GREEN)),
            ),
            width=6,
        ),
        Cell(
            panels.logs(
                "Late ranks",
                "Ranks that made the others wait again and again, with host, phase and operation, and when "
                "that was over. Look at that host, or at the work of that phase.",
                LokiQuery(
                    f"{search.events(events.RL_STRAGGLER, events.RL_STRAGGLER_END, where=_LATE_RANKS)}"
                    f' | line_format "{_LATE_LINE}"',
                    empty_when="no rank was late again and again",
                ),
            ),
            width=18,
        ),
    ),
)
