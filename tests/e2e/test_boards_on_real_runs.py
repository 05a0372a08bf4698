"""Every query of every board and rule, asked of the real servers, returns data of the selected run."""

from __future__ import annotations

import re

import pytest
from programs import AGENTIC_RUN, RUN
from support.backends import wait_for

from dashboards.lib.names import prometheus_name
from dashboards.queries_of import panel_queries, rule_queries, variable_queries
from otel_rl.semconv import metrics

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

#: Panels that another run than the others fills: one that asks a served engine in steps and brings it new weights.
OF_AGENTIC_RUN = {"Engines in each step", "Duration of a sync"}
PANELS = [
    agentic if query.panel in OF_AGENTIC_RUN else query
    for query, agentic in zip(panel_queries(RUN), panel_queries(AGENTIC_RUN), strict=True)
]
#: Of an engine in the process. A real one fills their panels in tests/engines/test_boards_of_engines.py.
_NO_VLLM = "this environment has no vLLM"
#: Metrics that these runs do not have, or not everywhere: a query of them must be valid, and may find nothing.
MAY_BE_EMPTY = {
    metrics.HW_GPU_UTILIZATION: "no GPU",
    metrics.RL_CUDA_MEMORY_USAGE: "no GPU",
    metrics.RL_COMPILE_TIME: "nothing is compiled",
    metrics.RL_CGROUP_MEMORY_LIMIT: "the control group may have none",
    metrics.RL_GC_TIME: "measured from Python 3.12 on",
    metrics.RL_EVENT_LOOP_LAG: "these programs run no event loop",
    metrics.RL_SERVICE_DURATION: "these programs name no service",
    metrics.RL_STRAGGLER_LOST_SHARE: "the few steps of this training may be over before the ranks are compared",
    metrics.TORCH_DISTRIBUTED_ARRIVAL_SPREAD: "as above",
    metrics.GEN_AI_SERVER_REQUEST_DURATION: _NO_VLLM,
    metrics.GEN_AI_SERVER_TIME_TO_FIRST_TOKEN: _NO_VLLM,
    metrics.RL_ENGINE_TOKENS: _NO_VLLM,
    metrics.RL_ENGINE_QUEUE_DURATION: _NO_VLLM,
    metrics.RL_ENGINE_PREFILL_DURATION: _NO_VLLM,
    metrics.RL_ENGINE_DECODE_DURATION: _NO_VLLM,
    metrics.RL_ENGINE_FINISHED: _NO_VLLM,
    metrics.RL_ENGINE_PREEMPTED: _NO_VLLM,
    metrics.RL_ENGINE_POLICY_AGE: _NO_VLLM,
    metrics.RL_SYNC_OPERATION_DURATION: _NO_VLLM,
    metrics.RL_SYNC_TRANSFERRED: _NO_VLLM,
    metrics.RL_SYNC_CHECKS: _NO_VLLM,
    metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN: _NO_VLLM,
    metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX: _NO_VLLM,
    metrics.RL_ROLLOUT_STALENESS: _NO_VLLM,
}
#: Panels of what a healthy run of six steps does not have; the same holds.
OF_FAULTS = {
    "What has changed",
    "Hangs",
    "Calls that hang",
    "Ranks without a flight recorder",
    "Late ranks",
    "Code that blocked an event loop",
    "Syncs that went wrong",
}
#: These runs have no engine that is scraped: tests/integration/dashboards fills this board, over a real collector.
SERVING = "otel-rl-serving"
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.*),\s*)?(?P<label>\w+)\)$")


def _name(query) -> str:
    return f"{query.board}/{query.panel}/{query.datasource}"


@pytest.mark.parametrize("query", PANELS, ids=_name)
def test_panel_has_data(query, training, agent, rollouts, agentic, backends):
    ask = {"prometheus": backends.promql, "loki": backends.logql, "tempo": backends.traceql}[query.datasource]
    is_absent = query.datasource == "prometheus" and any(prometheus_name(one) in query.text for one in MAY_BE_EMPTY)
    if is_absent or (query.empty_when and (query.panel in OF_FAULTS or query.board == SERVING)):
        assert isinstance(ask(query.text), list)
        return
    wait_for(lambda: ask(query.text), f"data for {query.text}")


@pytest.mark.parametrize("query", [one for one in variable_queries(RUN) if one.panel != "replica"], ids=_name)
def test_selector_has_values(query, training, agent, backends):
    if query.panel == "run":
        found = lambda: backends.promql(query.text.removeprefix("query_result(").removesuffix(")"))  # noqa: E731
        assert wait_for(found, query.text)
        return
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
