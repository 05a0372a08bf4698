"""One trajectory of the example is followed from its record in Loki through Tempo: model, tool, its server, reward."""

from __future__ import annotations

import base64
import json
from collections import defaultdict

import pytest
from programs import AGENTIC_RUN
from support.backends import attributes, wait_for

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")


def _records(backends, event):
    streams = backends.logql(f'{{service_name=~".+"}} | event_name="{event}" | rl_run_id="{AGENTIC_RUN}"')
    return [(stream["stream"], line) for stream in streams for _, line in stream["values"]]


@pytest.fixture(scope="session")
def trace_id(agentic, backends) -> str:
    """The trace of the first trajectory of the second step, from the record of the step's trajectories."""

    def second_step():
        found = _records(backends, "rl.trajectories")
        return next((json.loads(line) for labels, line in found if labels["rl_loop_iteration"] == "2"), None)

    body = wait_for(second_step, "the trajectories of the second step in Loki")
    return body["rl.rollout.trace_id"][0]


@pytest.fixture(scope="session")
def spans(trace_id, backends):
    """Its spans, by name and kind."""

    def whole():
        found = defaultdict(list)
        for span in backends.trace(trace_id):
            found[span["name"], span["kind"].removeprefix("SPAN_KIND_")].append(span)
        needed = {("rl.rollout", "INTERNAL"), ("tools/call add", "CLIENT"), ("tools/call add", "SERVER")}
        return found if needed <= found.keys() and len(found["text_completion tiny", "CLIENT"]) == 2 else None

    return wait_for(whole, f"the whole trace {trace_id} in Tempo")


def test_the_model_and_the_tool_are_called_by_the_rollout_and_served_by_another_process(spans):
    [rollout] = spans["rl.rollout", "INTERNAL"]
    [client], [server] = spans["tools/call add", "CLIENT"], spans["tools/call add", "SERVER"]
    assert {one["parentSpanId"] for one in [*spans["text_completion tiny", "CLIENT"], client]} == {rollout["spanId"]}
    assert server["parentSpanId"] == client["spanId"]
    assert client["resource"]["service.name"] == "agentic_grpo"
    assert server["resource"]["service.name"] == "calculator_server"


def test_the_trajectory_ends_with_its_reward(spans, trace_id, backends):
    [rollout] = spans["rl.rollout", "INTERNAL"]

    def both():
        found = [
            labels for labels, _ in _records(backends, "gen_ai.evaluation.result") if labels["trace_id"] == trace_id
        ]
        return found if len(found) == 2 else None

    scores = {
        one["gen_ai_evaluation_name"]: float(one["gen_ai_evaluation_score_value"])
        for one in wait_for(both, "both rewards of the trajectory in Loki")
    }
    assert scores.keys() == {"right", "digits"}
    assert attributes(rollout)["rl.rollout.reward"] == pytest.approx(sum(scores.values()))


def test_the_trajectory_is_linked_to_its_step(spans, backends):
    [rollout] = spans["rl.rollout", "INTERNAL"]
    [link] = rollout["links"]
    linked = base64.b64decode(link["traceId"]).hex()
    step = wait_for(
        lambda: [span for span in backends.trace(linked) if span["spanId"] == link["spanId"]],
        "the linked step in Tempo",
    )
    assert [span["name"] for span in step] == ["rl.rank.step"]
    assert attributes(step[0])["rl.loop.iteration"] == attributes(rollout)["rl.loop.iteration"] == "2"
