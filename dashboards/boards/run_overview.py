"""Run overview: is the run alive, fast, learning, and is its telemetry whole?"""

from __future__ import annotations

from typing import Any

from dashboards.boards.annotations import FIRING, FIRING_ALERTS
from dashboards.boards.health_row import HEALTH_ROW
from dashboards.boards.learning_row import LEARNING
from dashboards.boards.run_overview_rows import PACE, RECORDS
from dashboards.boards.run_selector import RUN
from dashboards.lib import panels
from dashboards.lib.layout import Board, Cell, Row
from dashboards.lib.names import label_name, shown
from dashboards.lib.panels import BLUE, GREEN, ORANGE, RED, steps
from dashboards.lib.promql import increase, latest, mean, rate, series, zero_if_none
from dashboards.lib.queries import PromQuery
from dashboards.lib.variables import TRAINER_METRIC, WINDOW
from otel_rl.semconv import attributes, metrics

_STATUS = metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS
_RANK = label_name(attributes.RL_RANK)
_NONE_IS_GOOD = steps(GREEN, (1, RED))


def _now(
    title: str, description: str, expr: str, unit: str = "short", thresholds: dict[str, Any] | None = None
) -> Cell:
    query = PromQuery(expr, instant=True)
    return Cell(panels.stat(title, description, query, unit=unit, thresholds=thresholds), width=3, height=4)


_NOW = Row(
    "Now",
    (
        _now(
            "Step",
            "The iteration that the run is in. Stands still while the run is alive? Look at the ranks board for who "
            "waits.",
            latest(metrics.RL_LOOP_CURRENT),
        ),
        _now(
            "Step time",
            "Mean duration of a training iteration. Rising? The phases below say which part of the step grew.",
            mean(metrics.RL_LOOP_DURATION),
            "s",
        ),
        _now(
            "Steps per hour",
            "Optimizer steps finished per hour over the averaging window. 0 while the run is alive: it is stuck.",
            f"3600 * max({rate(metrics.RL_TRAIN_STEPS, attributes.RL_RANK)})",
        ),
        _now(
            "Reward",
            "Mean reward of the last batch. Read it with KL and entropy: reward bought with either is not learning.",
            latest(metrics.RL_ENVIRONMENT_REWARD_MEAN),
        ),
        _now(
            "Ranks reporting",
            "Ranks from which metrics came in the last minutes. Fewer than the job has: one is dead or cannot reach "
            "the collector; see the logs by rank.",
            f"count(count by ({_RANK}) ({series(_STATUS)}))",
        ),
        _now(
            "Alerts firing",
            "Alerts of this run that fire now. Not 0? Open the alert; its runbook says what to do.",
            f"count({FIRING}) or 0 * count({series(_STATUS)})",
            thresholds=_NONE_IS_GOOD,
        ),
        _now(
            "Telemetry dropped",
            "Spans, points and records dropped within the visible time, for whatever reason. Not 0? See the last row.",
            zero_if_none(increase(metrics.RL_TELEMETRY_DROPPED), _STATUS),
            thresholds=steps(GREEN, (1, ORANGE)),
        ),
        _now(
            "Instrumentors failed",
            "Instrumentors that could not patch their library in some process. Not 0? `otel-rl doctor` says why.",
            f"count({series(_STATUS)} < 0) or 0 * count({series(_STATUS)})",
            thresholds=_NONE_IS_GOOD,
        ),
    ),
)

_TELEMETRY = Row(
    "The telemetry itself",
    (
        Cell(
            panels.timeseries(
                "Dropped, by reason",
                "Items dropped per second: full queues, limits, values that are not finite, an endpoint that does not "
                "answer. Boards and reports are incomplete by this much; fix the reason or raise the limit it names.",
                [
                    PromQuery(
                        zero_if_none(
                            rate(
                                metrics.RL_TELEMETRY_DROPPED,
                                attributes.RL_TELEMETRY_DROP_REASON,
                                attributes.RL_TELEMETRY_SIGNAL,
                            ),
                            _STATUS,
                            attributes.RL_TELEMETRY_DROP_REASON,
                        ),
                        legend=shown(attributes.RL_TELEMETRY_SIGNAL, attributes.RL_TELEMETRY_DROP_REASON),
                    )
                ],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Own errors, by site",
                "Errors that otel-rl caught; the training program did not see them. Sites `program.*` are sinks and "
                "span processors of the program. Please report others with the line that the process logged per site.",
                [
                    PromQuery(
                        zero_if_none(
                            rate(metrics.RL_TELEMETRY_ERRORS, attributes.RL_TELEMETRY_SITE),
                            _STATUS,
                            attributes.RL_TELEMETRY_SITE,
                        ),
                        legend=shown(attributes.RL_TELEMETRY_SITE),
                    )
                ],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "CPU time of otel-rl, by rank",
                "Share of a process's CPU time that otel-rl takes itself.",
                [
                    PromQuery(
                        f"{rate(metrics.RL_TELEMETRY_CPU_TIME, attributes.RL_RANK)}"
                        f" / {rate(metrics.PROCESS_CPU_TIME, attributes.RL_RANK)}",
                        legend=f"rank {shown(attributes.RL_RANK)}",
                    )
                ],
                unit="percentunit",
                minimum=0,
            )
        ),
        Cell(
            panels.bar_gauge(
                "Instrumentors",
                "The worst state of each instrumentor over the run's processes: 1 active, 0 skipped (library absent or "
                "of an unsupported version), -1 failed. `otel-rl doctor` gives the reason.",
                PromQuery(
                    f"min by ({label_name(attributes.RL_TELEMETRY_INSTRUMENTOR)}) ({series(_STATUS)})",
                    legend=shown(attributes.RL_TELEMETRY_INSTRUMENTOR),
                    instant=True,
                ),
                unit="none",
                thresholds=steps(RED, (0, BLUE), (1, GREEN)),
            )
        ),
    ),
)

BOARD = Board(
    name="run-overview",
    title="otel-rl / Run overview",
    description="Is the run alive, fast and learning, and is its telemetry whole? Start here, then follow the links.",
    variables=(RUN, WINDOW, TRAINER_METRIC),
    rows=(_NOW, HEALTH_ROW, PACE, LEARNING, RECORDS, _TELEMETRY),
    annotations=(FIRING_ALERTS,),
)
