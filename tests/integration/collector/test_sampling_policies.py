"""Each policy of the gateway as docs/collector-sampling.md says it in words: what it keeps and what it lets go."""

from __future__ import annotations

import pytest
import yaml
from collector_process import CONFIGURATION, FILE_SINK, CollectorProcess, wait_for
from otlp import span
from sampled_traces import FAST, all_ids, ids, in_share, ordinary, own_metrics, send, send_together, trace


def hinted(value: object) -> dict[str, object]:
    return {"attributes": {"rl.sampling.priority": value}}


def rewarded(value: object) -> dict[str, object]:
    return {"attributes": {"rl.rollout.reward": value}}


def finished(*reasons: str) -> dict[str, object]:
    return {"attributes": {"gen_ai.response.finish_reasons": list(reasons)}}


KEPT = {
    "a span somewhere in the trace asks for it": trace("rl.rollout", "chat tiny", "execute_tool search", **hinted(1)),
    "a server that copies baggage as text asks for it": trace("rl.rollout", "llm_request", **hinted("1")),
    "a step whose phases have not come": trace("rl.rank.step", "chat tiny", root={"parent": "00000000000000aa"}),
    "model calls of a step, nothing else of it yet": trace("chat tiny", "execute_tool search", root=hinted(1)),
    "an error below the root": trace("rl.rollout", "chat tiny", error=True),
    "longer than a minute": trace("rl.rollout", "chat tiny", root={"seconds": 61.0}),
    "cut off at the length limit": trace("rl.rollout", "chat tiny", **finished("length")),
    "cut off, as another provider says it": trace("rl.rollout", "chat tiny", **finished("stop", "max_tokens")),
    "no reward at all": trace("rl.rollout", "chat tiny", root=rewarded(0.0)),
}
LET_GO = {
    "no wish": trace("rl.rollout", "chat tiny", root=hinted(0)),
    "a wish that is no number": trace("rl.rollout", "chat tiny", root=hinted("please")),
    "finished by itself": trace("rl.rollout", "chat tiny", **finished("stop")),
    "rewarded": trace("rl.rollout", "chat tiny", root=rewarded(0.5)),
    "punished": trace("rl.rollout", "chat tiny", root=rewarded(-1.0)),
    "of an iteration, and no step": trace("rl.rollout", "rl.reward", root={"attributes": {"rl.loop.iteration": 3}}),
    "nothing special": ordinary(),
}


def start(start_collector, percentage: float, **environment: str) -> CollectorProcess:
    variables = {**FAST, "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": str(percentage), **environment}
    return start_collector("gateway.yaml", FILE_SINK, **variables)


def test_every_policy_keeps_its_traces_whole_and_all_others_go(start_collector):
    gateway = start(start_collector, 0)
    send(gateway, *KEPT.values(), *LET_GO.values())
    wait_for(lambda: ids(gateway.spans()) >= all_ids(KEPT.values()), "all that is kept")
    gateway.stop()  # decides what is pending
    left = ids(gateway.spans())
    assert {why for why, spans in KEPT.items() if not ids(spans) <= left} == set()
    assert {why for why, spans in LET_GO.items() if ids(spans) & left} == set()


def test_outliers_are_kept_by_the_share_that_is_set_for_them(start_collector):
    gateway = start(start_collector, 0, OTEL_RL_COLLECTOR_OUTLIER_PERCENTAGE="30")
    truncated = [trace("rl.rollout", "chat tiny", **finished("length")) for _ in range(60)]
    unrewarded = [trace("rl.rollout", "chat tiny", root=rewarded(0.0)) for _ in range(60)]
    send_together(gateway, truncated + unrewarded)
    gateway.stop()
    expected = [spans for spans in truncated + unrewarded if in_share(spans, 30)]
    assert ids(gateway.spans()) == all_ids(expected)


@pytest.mark.parametrize("percentage", [0, 12.5, 100])
def test_of_the_rest_exactly_the_traces_go_whose_id_is_below_the_share(start_collector, percentage: float):
    gateway = start(start_collector, percentage)
    rest = [ordinary() for _ in range(300)]
    send_together(gateway, rest)
    gateway.stop()
    assert ids(gateway.spans()) == all_ids(spans for spans in rest if in_share(spans, percentage))


@pytest.mark.parametrize("name", ["rl.run", "rl.checkpoint", "rl.sync", "rl.weight_sync"])
def test_a_lifecycle_span_is_kept_when_its_trace_was_let_go_long_before(start_collector, name: str):
    gateway = start(start_collector, 0)
    early, marker = ordinary(), trace("rl.loop")
    send(gateway, early, marker)
    wait_for(lambda: ids(gateway.spans()) >= ids(marker), "the step: by now the other one has been decided too")
    lifecycle = span(name, trace_id=early[0]["traceId"], parent=early[0]["spanId"])
    late = span("chat tiny", trace_id=early[0]["traceId"], parent=early[0]["spanId"])
    send(gateway, [lifecycle, late])
    wait_for(lambda: ids(gateway.spans()) >= ids([lifecycle]), "the lifecycle span")
    gateway.stop()
    assert ids(gateway.spans()) == ids([*marker, lifecycle])


def test_late_spans_follow_the_decision_whichever_it_was(start_collector):
    gateway = start(start_collector, 0)
    kept, gone = trace("rl.rollout", "chat tiny", root=hinted(1)), ordinary()
    send(gateway, kept, gone)
    wait_for(lambda: ids(gateway.spans()) == ids(kept), "the hinted trace")
    wait_for(lambda: decided(gateway) == {"true": 1, "false": 1}, "both decisions")
    # An error would keep a trace that is not decided yet.
    late = [
        span("chat tiny", trace_id=spans[0]["traceId"], parent=spans[0]["spanId"], error=True) for spans in (kept, gone)
    ]
    send(gateway, *[[each] for each in late])
    wait_for(lambda: ids(gateway.spans()) >= ids(late[:1]), "the late span of the kept trace")
    gateway.stop()
    assert ids(gateway.spans()) == ids([*kept, late[0]])


def decided(gateway: CollectorProcess) -> dict[str, float]:
    shown = own_metrics(gateway)["otelcol_processor_tail_sampling_global_count_traces_sampled"]
    return {
        value: sum(count for labels, count in shown.items() if f'sampled="{value}"' in labels)
        for value in ("true", "false")
    }


def test_decisions_are_remembered_for_ten_times_as_many_traces_as_are_undecided():
    sampling = yaml.safe_load((CONFIGURATION / "gateway.yaml").read_text())["processors"]["tail_sampling"]
    assert set(sampling["decision_cache"]) == {"sampled_cache_size", "non_sampled_cache_size"}
    for size in sampling["decision_cache"].values():
        assert size >= 10 * sampling["num_traces"]


def test_a_step_trace_is_whole_although_its_ranks_send_apart_and_at_different_times(start_collector):
    gateway = start(start_collector, 0)
    trace_id = "0" * 15 + "1" * 17
    root = span("rl.loop", trace_id=trace_id)
    ranks = [span("rl.rank.step", {"rl.rank": rank}, trace_id=trace_id, parent=root["spanId"]) for rank in range(4)]
    phases = [span("rl.train", trace_id=trace_id, parent=rank["spanId"]) for rank in ranks]
    calls = [span("chat tiny", trace_id=trace_id, parent=rank["spanId"]) for rank in ranks]
    send(gateway, calls[:1], [ranks[0], phases[0]], [ranks[1], root], phases[1:2])
    wait_for(lambda: ids(gateway.spans()) >= ids([root, *ranks[:2], *phases[:2], calls[0]]), "two ranks")
    send(gateway, calls[1:], ranks[2:], phases[2:])
    wait_for(lambda: ids(gateway.spans()) == ids([root, *ranks, *phases, *calls]), "the whole step")
