"""Rows of the ranks board: who makes the others wait, and the collectives by operation and group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import links, panels
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import label_name, shown
from dashboards.lib.panels import GREEN, ORANGE, RED, column, steps
from dashboards.lib.promql import CHOSEN_RANKS, by, increase, latest, mean, rate, recorded
from dashboards.lib.queries import PromQuery
from dashboards.rules.alerts import STRAGGLER_LIMIT
from dashboards.rules.recording import STRAGGLER_SCORE, WAIT_SHARE
from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

_RANKS = (CHOSEN_RANKS,)
_LEGEND = f"rank {shown(attributes.RL_RANK)}"
_KIND = (attributes.TORCH_DISTRIBUTED_OPERATION, attributes.TORCH_DISTRIBUTED_GROUP_NAME)
_KIND_LEGEND = f"{shown(attributes.TORCH_DISTRIBUTED_OPERATION)} / {shown(attributes.TORCH_DISTRIBUTED_GROUP_NAME)}"
_BY_RANK = by(attributes.RL_RANK)

_CALLS = metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS
_BYTES = metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO
_HOST = metrics.TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME
_WAIT = metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME

_STEP_TIME = mean(metrics.RL_LOOP_DURATION, attributes.RL_RANK, where=_RANKS)
_WAIT_PER_STEP = (
    f"{rate(_WAIT, attributes.RL_RANK, where=_RANKS)}"
    f" / {rate(metrics.RL_LOOP_DURATION, attributes.RL_RANK, where=_RANKS, part='count')}"
)
_OWN_WORK = f"({_STEP_TIME}) - ({_WAIT_PER_STEP})"

SKEW = Row(
    "Who makes the others wait",
    (
        Cell(
            panels.bar_gauge(
                "Straggler score now",
                "How much more of its time the typical rank waits in collectives than this one. Everybody waits for a "
                "straggler and a straggler waits for nobody. Above the red mark for ten minutes: alert RankStraggling.",
                PromQuery(
                    f"clamp_min(max {_BY_RANK} ({recorded(STRAGGLER_SCORE.name, CHOSEN_RANKS)}), 0)",
                    legend=_LEGEND,
                    instant=True,
                ),
                unit="percentunit",
                thresholds=steps(GREEN, (STRAGGLER_LIMIT / 2, ORANGE), (STRAGGLER_LIMIT, RED)),
                links=links.RANK_LINKS,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Straggler score",
                "The same over time. One rank above the line: look at that rank's host (clocks, thermals, noisy "
                "neighbours, its share of long samples). Ranks that take turns: uneven work, not a bad host.",
                [
                    PromQuery(
                        f"max {_BY_RANK} ({recorded(STRAGGLER_SCORE.name, CHOSEN_RANKS)})",
                        legend=_LEGEND,
                    )
                ],
                unit="percentunit",
                thresholds=steps(GREEN, (STRAGGLER_LIMIT, RED)),
                links=links.RANK_LINKS,
            ),
            width=9,
        ),
        Cell(
            panels.timeseries(
                "Lost to late ranks",
                "Share of a step that the other ranks of a node lose to each rank that is late again and again; from "
                "the flight recorders of the ranks. Above the red mark for two minutes: alert RankLate. The event "
                "rl.straggler names operation and phase. Empty with NCCL, where no host waits.",
                [
                    PromQuery(
                        latest(metrics.RL_STRAGGLER_LOST_SHARE, attributes.RL_STRAGGLER_RANK),
                        legend=f"rank {shown(attributes.RL_STRAGGLER_RANK)}",
                    )
                ],
                unit="percentunit",
                minimum=0,
                thresholds=steps(GREEN, (STRAGGLER_LIMIT, RED)),
            )
        ),
        Cell(
            panels.timeseries(
                "Spread of arrivals, by group",
                "Time between the first and the last rank of a node that entered a collective, the longest of a step. "
                "Under NCCL the ranks enter when they enqueue: apart does not mean late there.",
                [
                    PromQuery(
                        latest(metrics.TORCH_DISTRIBUTED_ARRIVAL_SPREAD, attributes.TORCH_DISTRIBUTED_GROUP_NAME),
                        legend=shown(attributes.TORCH_DISTRIBUTED_GROUP_NAME),
                    )
                ],
                unit="s",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Time spent waiting, by rank",
                "Share of its time that each rank waits in collectives. All high and alike: communication is the "
                "limit. One low among high ones: that one is the straggler.",
                [
                    PromQuery(
                        f"max {_BY_RANK} ({recorded(WAIT_SHARE.name, CHOSEN_RANKS)})",
                        legend=_LEGEND,
                    )
                ],
                unit="percentunit",
                minimum=0,
                links=links.RANK_LINKS,
            ),
            width=9,
        ),
        Cell(
            panels.timeseries(
                "Step time, by rank",
                "Mean duration of an iteration on each rank. In synchronous training all ranks agree, since they wait "
                "for the slowest; who is slow shows in the next panel.",
                [PromQuery(_STEP_TIME, legend=_LEGEND)],
                unit="s",
                minimum=0,
                links=links.RANK_LINKS,
            )
        ),
        Cell(
            panels.timeseries(
                "Own work per step, by rank",
                "Step time less the time waited in collectives: what a rank itself needs. The highest line sets the "
                "pace of the run; the distance to the others is what balancing would win.",
                [PromQuery(_OWN_WORK, legend=_LEGEND)],
                unit="s",
                links=links.RANK_LINKS,
            )
        ),
        Cell(
            panels.timeseries(
                "Skew between ranks",
                "Most own work of any rank less that of the least busy one, per step: seconds that somebody idles in "
                "each step. Grows over a run: samples become more uneven, or a host slows down.",
                [PromQuery(f"max({_OWN_WORK}) - min({_OWN_WORK})", legend="skew per step")],
                unit="s",
                minimum=0,
            )
        ),
    ),
)


def _by_kind(title: str, description: str, metric: MetricDefinition, unit: str) -> Cell:
    query = PromQuery(rate(metric, *_KIND, where=_RANKS), legend=_KIND_LEGEND)
    return Cell(panels.timeseries(title, description, [query], unit=unit, minimum=0), width=6)


_TOTALS = {
    "Calls": increase(_CALLS, *_KIND, where=_RANKS),
    "Bytes": increase(_BYTES, *_KIND, where=_RANKS),
    "Host time": increase(_HOST, *_KIND, where=_RANKS),
    "Wait time": increase(_WAIT, *_KIND, where=_RANKS),
}

COLLECTIVES = Row(
    "Collectives, by operation and group",
    (
        _by_kind(
            "Calls per second",
            "Collectives launched per second, chosen ranks together. Many small ones: bucket or fuse them.",
            _CALLS,
            "cps",
        ),
        _by_kind(
            "Bytes per second",
            "Size of the tensors given to collectives, per second. Compare with what the links can carry.",
            _BYTES,
            "Bps",
        ),
        _by_kind(
            "Host time",
            "Seconds per second that host threads spend launching collectives, chosen ranks together. High with few "
            "bytes: launch overhead, not the network.",
            _HOST,
            "percentunit",
        ),
        _by_kind(
            "Wait time",
            "Seconds per second that host threads wait for collectives, chosen ranks together. The operation that "
            "leads here is where ranks meet late or the network is slow.",
            _WAIT,
            "percentunit",
        ),
        Cell(
            panels.table(
                "Totals in the visible time",
                "Calls, bytes, host time and wait time of each operation and group over the visible time, chosen ranks "
                "together. Start with the largest wait; divide it by the calls to tell few slow ones from many.",
                [PromQuery(expr, legend=name, instant=True, format="table") for name, expr in _TOTALS.items()],
                unit="short",
                transformations=[
                    {"id": "merge", "options": {}},
                    {
                        "id": "organize",
                        "options": {
                            "excludeByName": {"Time": True},
                            "renameByName": {
                                **{f"Value #{letter}": name for letter, name in zip("ABCD", _TOTALS, strict=True)},
                                label_name(attributes.TORCH_DISTRIBUTED_OPERATION): "Operation",
                                label_name(attributes.TORCH_DISTRIBUTED_GROUP_NAME): "Group",
                            },
                        },
                    },
                ],
                overrides=[
                    column("Bytes", unit="bytes"),
                    column("Host time", unit="s"),
                    column("Wait time", unit="s"),
                ],
                sort_by="Wait time",
            ),
            width=16,
        ),
        Cell(
            panels.bar_gauge(
                "Clock offset, by rank",
                "Wall clock of each rank minus that of rank 0 when the process group was set up. More than a few "
                "milliseconds: spans of different ranks do not line up; look at time synchronisation of that host.",
                PromQuery(
                    latest(metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET, attributes.RL_RANK, where=_RANKS),
                    legend=_LEGEND,
                    instant=True,
                ),
                unit="s",
            )
        ),
    ),
)
