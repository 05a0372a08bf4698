"""What real runs send through the real collector is found by query in Prometheus, Tempo and Loki, and only that."""

from __future__ import annotations

import json

import pytest
from programs import KEY, PROMPT, RUN, STEPS
from support.backends import attributes, wait_for

from dashboards.lib.names import prometheus_name
from otel_rl.semconv import metrics

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

AGENT = f'resource.rl.run.id = "{RUN}" && resource.service.name = "agent_rollout"'


def _step_trace(backends, iteration):
    """Spans of one step's trace, once both ranks have reported."""
    query = f'{{ resource.rl.run.id = "{RUN}" && name = "rl.loop" && span.rl.loop.iteration = {iteration} }}'
    (found, *_) = wait_for(lambda: backends.traceql(query), f"the trace of step {iteration}")

    def whole():
        spans = backends.trace(found["traceID"])
        return spans if sum(span["name"] == "rl.rank.step" for span in spans) == 2 else None

    return wait_for(whole, f"both ranks in the trace of step {iteration}")


def test_both_ranks_meet_in_one_step_trace_with_their_phases(training, backends):
    spans = _step_trace(backends, STEPS - 1)
    (root,) = [span for span in spans if span["name"] == "rl.loop"]
    ranks = [span for span in spans if span["name"] == "rl.rank.step"]
    assert {span["parentSpanId"] for span in ranks} == {root["spanId"]}
    assert {span["resource"]["rl.rank"] for span in ranks} == {"0", "1"}
    for rank in ranks:
        children = {span["name"] for span in spans if span.get("parentSpanId") == rank["spanId"]}
        assert {"rl.sample", "rl.train"} <= children, children
    names = {span["name"] for span in spans}
    assert {"rl.generate", "rl.reward", "rl.backward", "rl.optimizer"} <= names, names


def test_every_step_is_kept_though_all_ordinary_rollouts_are_sampled_away(training, backends):
    query = f'{{ resource.rl.run.id = "{RUN}" && name = "rl.loop" }}'
    wait_for(lambda: len(backends.traceql(query)) >= STEPS, "all step traces")


def test_counters_and_gauges_of_both_ranks_are_in_prometheus(training, backends):
    for metric in (metrics.RL_TRAIN_STEPS, metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME, metrics.RL_LOOP_CURRENT):
        query = f'{prometheus_name(metric)}{{rl_run_id="{RUN}"}}'
        series = wait_for(lambda query=query: backends.promql(query), query)
        ranks = {one["metric"]["rl_rank"] for one in series}
        assert ranks in ({"0", "1"}, {"0"}), (query, ranks)
    steps = backends.promql(f'max({prometheus_name(metrics.RL_LOOP_CURRENT)}{{rl_run_id="{RUN}"}})')
    assert float(steps[0]["value"][1]) == STEPS
    entropy = backends.promql(f'{prometheus_name(metrics.RL_TRAIN_ENTROPY)}{{rl_run_id="{RUN}"}}')
    assert [one["metric"]["rl_rank"] for one in entropy] == ["0"], "only the rank that logs emits trainer scalars"


def test_no_series_carries_an_id_of_a_step_or_rollout(training, agent, backends):
    for series in wait_for(lambda: backends.promql(f'{{rl_run_id="{RUN}"}}'), "series of the run"):
        forbidden = {"rl_loop_iteration", "rl_rollout_id", "rl_sample_id", "rl_group_id", "trace_id"}
        assert not forbidden & series["metric"].keys(), series["metric"]


def test_an_exemplar_leads_to_a_trace_that_tempo_still_has(training, backends):
    query = f'{prometheus_name(metrics.RL_LOOP_DURATION)}_bucket{{rl_run_id="{RUN}"}}'
    exemplars = wait_for(lambda: backends.exemplars(query), "exemplars of the step duration")
    trace_id = exemplars[-1]["labels"]["trace_id"]
    spans = wait_for(lambda: backends.trace(trace_id), f"the exemplar's trace {trace_id}")
    assert "rl.loop" in {span["name"] for span in spans}


def test_step_records_are_in_loki_with_event_name_and_trace(training, backends):
    query = f'{{service_name="grpo_two_ranks"}} | event_name="rl.step" | rl_run_id="{RUN}"'
    streams = wait_for(lambda: backends.logql(query), "step records in Loki")
    records = [(stream["stream"], json.loads(line)) for stream in streams for _, line in stream["values"]]
    assert sum("loss" in body for _, body in records) >= STEPS
    labels, body = next((labels, body) for labels, body in records if "reward" in body)
    assert isinstance(body["reward"], float)
    spans = wait_for(lambda: backends.trace(labels["trace_id"]), "the trace of a step record")
    assert "rl.rank.step" in {span["name"] for span in spans}


def _error_traces(backends):
    return backends.traceql(
        f'{{ resource.rl.run.id = "{RUN}" && resource.service.name = "agent_rollout" && status = error }}'
    )


def test_the_erroneous_rollout_joins_agent_chat_call_and_tool_in_one_trace(agent, backends):
    (found, *_) = wait_for(lambda: _error_traces(backends), "the rollout whose tool failed")

    def whole():
        spans = backends.trace(found["traceID"])
        operations = {attributes(span).get("gen_ai.operation.name") for span in spans}
        return spans if {"chat", "execute_tool"} <= operations else None

    spans = wait_for(whole, "chat call and tool in the rollout's trace")
    by_id = {span["spanId"]: span for span in spans}
    roots = [span for span in spans if span.get("parentSpanId") not in by_id]
    assert len(roots) == 1, [span["name"] for span in roots]
    tools = [span for span in spans if attributes(span).get("gen_ai.operation.name") == "execute_tool"]
    assert [span["status"].get("code") for span in tools] == ["STATUS_CODE_ERROR"]


def test_ordinary_rollouts_are_sampled_away_and_still_counted(agent, backends):
    wait_for(lambda: _error_traces(backends), "the erroneous rollout")
    query = f'{{ {AGENT} && span.gen_ai.operation.name = "chat" }}'
    kept = {trace["traceID"] for trace in backends.traceql(query)}
    erroneous = {trace["traceID"] for trace in _error_traces(backends)}
    assert kept <= erroneous
    calls = f'sum({prometheus_name(metrics.GEN_AI_CLIENT_OPERATION_DURATION)}_count{{rl_run_id="{RUN}"}})'
    assert float(wait_for(lambda: backends.promql(calls), calls)[0]["value"][1]) >= 4


def test_a_planted_key_and_prompt_are_in_no_backend(leak, backends):
    query = '{ resource.rl.run.id = "leaking-run" && name = "rl.rollout" }'
    (found, *_) = wait_for(lambda: backends.traceql(query), "the leaking program's trace")
    spans = wait_for(lambda: backends.trace(found["traceID"]), "its spans")
    assert "execute_tool vault" in {span["name"] for span in spans}
    logs = '{service_name=~".+"} | rl_run_id="leaking-run"'

    def uncaught():
        streams = backends.logql(logs)
        return streams if any(s["stream"].get("event_name") == "rl.process.exception" for s in streams) else None

    streams = wait_for(uncaught, "the record of the uncaught exception")
    assert {"planted", "gen_ai.evaluation.result"} <= {stream["stream"].get("event_name") for stream in streams}
    series = wait_for(lambda: backends.promql('{rl_run_id="leaking-run"}'), "its metrics")
    for stored in (json.dumps(spans), json.dumps(streams), json.dumps(series)):
        assert KEY not in stored
        assert PROMPT not in stored
