"""The selector of the run, for every board about one."""

from __future__ import annotations

from dashboards.lib.promql import RANGE, by
from dashboards.lib.variables import in_order
from dashboards.rules.runs import RUN_START
from otel_rl.semconv import attributes

#: A board opens on the first one.
RUN = in_order(
    "run",
    "Run",
    "The runs that reported within the time range, the one that began last first",
    f"sort_desc(max {by(attributes.RL_RUN_ID)} (last_over_time({RUN_START.name}[{RANGE}])))",
    attributes.RL_RUN_ID,
)
