"""Row of the rollouts board: what becomes of trajectories, from their start to the loss."""

from __future__ import annotations

from dashboards.lib import panels
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import Match, mean, quantile, rate, zero_if_none
from dashboards.lib.queries import PromQuery
from otel_rl.semconv import attributes, metrics

_SOURCE = attributes.RL_TRAJECTORIES_SOURCE
_STATUS, _REASON = attributes.RL_ROLLOUT_STATUS, attributes.RL_ROLLOUT_DISCARD_REASON
_STARTED, _ENDED = metrics.RL_TRAJECTORY_STARTED, metrics.RL_TRAJECTORY_ENDED
_TURNS = metrics.RL_TRAJECTORY_TURNS
_DISCARDED = rate(_ENDED, _REASON, where=(Match(_REASON, "", "!="),))
_OF_TURNS = "no model was asked in a trajectory"


def _share(part: str, legend: str) -> PromQuery:
    return PromQuery(f"({part}) / {rate(_ENDED)}", legend)


TRAJECTORIES = Row(
    "Trajectories",
    (
        Cell(
            panels.timeseries(
                "Started and ended",
                "Trajectories per second, by outcome. More started than ended for long: some never come back; look at "
                "their tools and timeouts.",
                [
                    PromQuery(rate(_STARTED), "started"),
                    PromQuery(rate(_ENDED, _STATUS), shown(_STATUS)),
                ],
                unit="cps",
                minimum=0,
            ),
        ),
        Cell(
            panels.timeseries(
                "Discarded, by reason",
                "Trajectories per second that are not used. Compute that teaches nothing; the reason says what to "
                "change: the limit of tokens, the filter, the deadline.",
                [PromQuery(zero_if_none(_DISCARDED, _ENDED, _REASON), shown(_REASON))],
                unit="cps",
                minimum=0,
            ),
        ),
        Cell(
            panels.timeseries(
                "Trained and suspect",
                "Shares of the trajectories that ended. Trained: in the loss, where the trainer says it. Suspect: "
                "the lowest reward after something failed; mend the failure before you trust the reward.",
                [
                    _share(zero_if_none(rate(metrics.RL_TRAJECTORY_TRAINED), _ENDED), "trained"),
                    _share(zero_if_none(rate(metrics.RL_TRAJECTORY_SUSPECT), _ENDED), "suspect"),
                ],
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
        ),
        Cell(
            panels.timeseries(
                "Turns",
                "Answers of the policy's model in a trajectory, by where it comes from; those of judges and of models "
                "inside of tools are none. Rises with the reward unchanged: the policy takes detours; stuck at 1: it "
                "does not use its tools.",
                [
                    PromQuery(mean(_TURNS, _SOURCE), f"{shown(_SOURCE)} mean", empty_when=_OF_TURNS),
                    PromQuery(
                        quantile(0.95, _TURNS, _SOURCE), f"{shown(_SOURCE)} p95", exemplar=True, empty_when=_OF_TURNS
                    ),
                ],
                unit="short",
                minimum=0,
            ),
        ),
    ),
)
