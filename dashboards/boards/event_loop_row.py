"""Row of the rollouts board: event loops that are late, and the code that blocks them."""

from __future__ import annotations

from dashboards.lib import panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.promql import quantile
from dashboards.lib.queries import LokiQuery, PromQuery
from dashboards.lib.search import field
from otel_rl.semconv import attributes, events, metrics

_NONE = "no operation was seen in an event loop"
_BLOCK_LINE = (
    f"{field(attributes.RL_EVENT_LOOP_BLOCKED_DURATION)} s, {field(attributes.RL_EVENT_LOOP_ROLLOUTS)} rollouts and "
    f"{field(attributes.RL_EVENT_LOOP_MODEL_CALLS)} model calls open: {{{{__line__}}}}"
)

EVENT_LOOPS = Row(
    "Event loops",
    (
        Cell(
            panels.timeseries(
                "Lag of the event loops",
                "How late a callback runs in the asyncio loops of the drivers. All rollouts of a loop wait that long. "
                "High p99 and low p50: code that blocks, named beside; both high: too much work for one loop.",
                [
                    PromQuery(quantile(share, metrics.RL_EVENT_LOOP_LAG), f"p{share * 100:.0f}", empty_when=_NONE)
                    for share in (0.5, 0.99)
                ],
                unit="s",
                minimum=0,
            )
        ),
        Cell(
            panels.logs(
                "Code that blocked an event loop",
                "Which function blocked, for how long, who waited, and its stack while it did. Make it asynchronous, "
                "or run it in a thread.",
                LokiQuery(
                    f'{search.events(events.RL_EVENT_LOOP_BLOCKED)} | line_format "{_BLOCK_LINE}"',
                    empty_when="nothing blocked an event loop",
                ),
            ),
            width=16,
        ),
    ),
)
