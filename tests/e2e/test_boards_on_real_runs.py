"""Every query of every board and rule, asked of the real servers, returns data of the selected run."""

from __future__ import annotations

import re

import pytest
from backends import wait_for
from programs import RUN

from dashboards.lib.names import prometheus_name
from dashboards.queries_of import panel_queries, rule_queries, variable_queries
from otel_rl.semconv import metrics

PANELS = list(panel_queries(RUN))
#: Metrics that these runs do not have, or not everywhere: a query of them must be valid, and may find nothing.
MAY_BE_EMPTY = {
    metrics.HW_GPU_UTILIZATION: "no GPU",
    metrics.RL_CUDA_MEMORY_USAGE: "no GPU",
    metrics.RL_COMPILE_TIME: "nothing is compiled",
    metrics.RL_CGROUP_MEMORY_LIMIT: "the control group may have none",
    metrics.RL_GC_TIME: "measured from Python 3.12 on",
    metrics.RL_EVENT_LOOP_LAG: "these programs run no event loop",
    metrics.RL_STRAGGLER_LOST_SHARE: "the few steps of this training may be over before the ranks are compared",
    metrics.TORCH_DISTRIBUTED_ARRIVAL_SPREAD: "as above",
}
#: Panels of what a healthy run of six steps does not have; the same holds.
OF_FAULTS = {
    "What has changed",
    "Reports of hangs, by rank",
    "Hangs",
    "Ranks without a flight recorder",
    "Late ranks",
    "Code that blocked an event loop",
}
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.*),\s*)?(?P<label>\w+)\)$")


def _name(query) -> str:
    return f"{query.board}/{query.panel}/{query.datasource}"


@pytest.mark.parametrize("query", PANELS, ids=_name)
def test_panel_has_data(query, training, agent, rollouts, backends):
    ask = {"prometheus": backends.promql, "loki": backends.logql, "tempo": backends.traceql}[query.datasource]
    is_absent = query.datasource == "prometheus" and any(prometheus_name(one) in query.text for one in MAY_BE_EMPTY)
    if is_absent or (query.panel in OF_FAULTS and query.empty_when):
        assert isinstance(ask(query.text), list)
        return
    wait_for(lambda: ask(query.text), f"data for {query.text}")


@pytest.mark.parametrize("query", list(variable_queries(RUN)), ids=_name)
def test_selector_has_values(query, training, agent, backends):
    match = _LABEL_VALUES.match(query.text)
    assert match, query.text
    wait_for(lambda: backends.label_values(match["label"], match["selector"] or "{__name__=~'.+'}"), query.text)


@pytest.mark.parametrize("query", list(rule_queries(RUN)), ids=lambda query: query.name)
def test_rule_has_data(query, training, agent, backends):
    label, value = query.label

    def of_this_run_or_the_collector():
        return [one for one in backends.promql(query.text) if one["metric"].get(label) == value]

    if query.empty_when is None:
        wait_for(of_this_run_or_the_collector, f"data for {query.text}")
        wait_for(lambda: backends.promql(query.recorded), f"what the loaded rule left: {query.recorded}")
