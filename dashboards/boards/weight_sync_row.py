"""Row of the rollouts board: how new weights reach the engines, and how old those are that they use."""

from __future__ import annotations

from dashboards.boards.lines import quantiles
from dashboards.lib import panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import latest, mean, quantile, rate
from dashboards.lib.queries import LokiQuery, PromQuery
from otel_rl.semconv import attributes, events, metrics

_OPERATION, _VERDICT = attributes.RL_SYNC_OPERATION, attributes.RL_SYNC_VERDICT
_NO_ENGINE = "no engine gets its weights in a process of the run"

WEIGHT_SYNC = Row(
    "Weight sync",
    (
        Cell(
            panels.timeseries(
                "Duration of a sync",
                "The phase that brings new weights to the engines. Samples wait for it, unless the trainer is "
                "asynchronous.",
                quantiles(metrics.RL_SYNC_DURATION, empty_when="no step has a phase that syncs"),
                unit="s",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Duration, by stage",
                "Mean seconds of each operation on an engine: sleep, wake, transfer, reset of caches. The longest is "
                "the one to shorten.",
                [
                    PromQuery(
                        mean(metrics.RL_SYNC_OPERATION_DURATION, _OPERATION), shown(_OPERATION), empty_when=_NO_ENGINE
                    )
                ],
                unit="s",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Bytes brought, by operation",
                "Bytes of weights per second, where the arguments of the operation say their size. Constant bytes and "
                "a longer duration: the way to the engine is slower.",
                [
                    PromQuery(
                        rate(metrics.RL_SYNC_TRANSFERRED, _OPERATION),
                        shown(_OPERATION),
                        empty_when="no operation says how many bytes it brings",
                    )
                ],
                unit="Bps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Drift of trainer and engine",
                "Difference of both in the log-probability of sampled tokens, in nat, without sign. A jump that "
                "stays: the engine has old weights; the alert is EngineDrift.",
                [
                    PromQuery(latest(metric), legend, empty_when="the trainer does not compare its engine with itself")
                    for metric, legend in (
                        (metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN, "mean"),
                        (metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX, "largest"),
                    )
                ],
                unit="short",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Age of the weights at use",
                "Seconds since an engine got its weights, when a call begins. It should fall to 0 with each sync; "
                "rises without end: the syncs have stopped.",
                quantiles(metrics.RL_ENGINE_POLICY_AGE, empty_when=_NO_ENGINE),
                unit="s",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Versions behind",
                "How many versions the oldest weights of a trajectory are behind the newest at its end. Above what "
                "the algorithm corrects for: fewer rollouts at once, or more frequent syncs.",
                [
                    PromQuery(
                        quantile(share, metrics.RL_ROLLOUT_STALENESS),
                        f"p{share * 100:.0f}",
                        empty_when="no engine tells the version of its weights",
                    )
                    for share in (0.5, 0.99)
                ],
                unit="short",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Comparisons of the weights",
                "Comparisons per second, by outcome. Anything but `current` needs a look: skipped and partial syncs "
                "are listed beside.",
                [
                    PromQuery(
                        rate(metrics.RL_SYNC_CHECKS, _VERDICT),
                        shown(_VERDICT),
                        empty_when="OTEL_RL_SYNC_CHECK is off",
                    )
                ],
                unit="cps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.logs(
                "Syncs that went wrong",
                "Weights that did not reach an engine, or not all of them, with the operation and the tensors. Samples "
                "since then come from another policy than the one that is trained.",
                LokiQuery(search.events(events.RL_SYNC_PROBLEM), empty_when="every sync brought the weights"),
            ),
            width=6,
        ),
    ),
)
