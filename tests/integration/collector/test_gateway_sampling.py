"""What the gateway keeps of the traces, and that it counts every span before it lets one go."""

from __future__ import annotations

import pytest
from collector_process import FILE_SINK, CollectorProcess, wait_for
from otlp import attributes, span, trace_resource
from sampled_traces import CALLS, FAST, ids, ordinary, send, span_calls, trace


@pytest.fixture
def gateway(start_collector) -> CollectorProcess:
    return start_collector("gateway.yaml", FILE_SINK, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")


KEPT = {
    "step": trace("rl.loop", "rl.rank.step", "rl.sample", "chat tiny", "execute_tool search"),
    "step whose root has not come": trace("rl.rank.step", "rl.train", "chat tiny", root={"parent": "00000000000000aa"}),
    "error": trace("rl.rollout", "chat tiny", "execute_tool search", error=True),
    "slow": trace("rl.rollout", "chat tiny", root={"seconds": 61.0}),
    "forced": trace("rl.rollout", "chat tiny", root={"attributes": {"rl.sampling.priority": 1}}),
    "lifecycle": trace("rl.run"),
}


def test_steps_errors_slow_forced_and_lifecycle_are_kept_whole_and_the_rest_goes(gateway: CollectorProcess):
    gone = [ordinary() for _ in range(20)]
    send(gateway, *KEPT.values(), *gone)
    expected = {span_id for spans in KEPT.values() for span_id in ids(spans)}
    wait_for(lambda: ids(gateway.spans()) >= expected, "all that is kept")
    gateway.stop()  # decides what is pending
    left = ids(gateway.spans())
    assert {name for name, spans in KEPT.items() if not ids(spans) <= left} == set()
    assert left == expected


def test_rollouts_that_carry_the_iteration_are_no_steps(gateway: CollectorProcess):
    rollout = trace("rl.rollout", "chat tiny", root={"attributes": {"rl.loop.iteration": 3}})
    marker = trace("rl.loop")
    send(gateway, rollout, marker)
    wait_for(lambda: ids(gateway.spans()) >= ids(marker), "the step")
    gateway.stop()
    assert ids(gateway.spans()) == ids(marker)


def test_late_spans_of_a_kept_trace_follow_it(gateway: CollectorProcess):
    step = trace("rl.loop", "rl.train")
    send(gateway, step)
    wait_for(lambda: ids(gateway.spans()) == ids(step), "the step")
    late = span("chat tiny", trace_id=step[0]["traceId"], parent=step[0]["spanId"])
    send(gateway, [late])
    wait_for(lambda: ids(gateway.spans()) == ids([*step, late]), "the late span")


def test_the_span_of_a_run_is_kept_when_its_trace_was_let_go_before(gateway: CollectorProcess):
    early = ordinary()
    marker = trace("rl.loop")
    send(gateway, early, marker)
    wait_for(lambda: ids(gateway.spans()) >= ids(marker), "the step")
    run = span("rl.run", trace_id=early[0]["traceId"])
    send(gateway, [run])
    wait_for(lambda: ids(gateway.spans()) >= ids([run]), "the run's span")
    assert not ids(gateway.spans()) & ids(early)


def test_a_share_of_the_rest_is_kept_whole(start_collector):
    gateway = start_collector("gateway.yaml", FILE_SINK, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="50")
    rest = [ordinary() for _ in range(200)]
    gateway.send("traces", [trace_resource([each for spans in rest for each in spans])])
    gateway.stop()
    left = ids(gateway.spans())
    kept = [spans for spans in rest if ids(spans) <= left]
    assert len(left) == sum(map(len, kept)), "a trace was kept in part"
    assert 60 <= len(kept) <= 140


def test_span_metrics_count_every_span_before_sampling(gateway: CollectorProcess):
    rest = [ordinary() for _ in range(25)]
    send(gateway, *rest, KEPT["error"])
    expected = sum(map(len, rest)) + len(KEPT["error"])
    wait_for(lambda: span_calls(gateway) == expected, f"{expected} spans counted")
    resource = next(each for each in gateway.resources("metrics") if CALLS in str(each))
    assert attributes(resource["resource"])["rl.run.id"] == "run-1"
