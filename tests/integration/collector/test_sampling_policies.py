"""Each policy of the gateway as docs/collector-sampling.md says it in words: what it keeps and what it lets go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from collector_process import CONFIGURATION, FILE_SINK, CollectorProcess, wait_for
from otlp import span
from sampled_traces import FAST, all_ids, ids, in_share, ordinary, own_metrics, send, send_together, trace

if TYPE_CHECKING:
    from pathlib import Path


def hinted(value: object) -> dict[str, object]:
    return {"attributes": {"rl.sampling.priority": value}}


def rewarded(value: object) -> dict[str, object]:
    return {"attributes": {"rl.rollout.reward": value}}


def finished(*reasons: str) -> dict[str, object]:
    return {"attributes": {"gen_ai.response.finish_reasons": list(reasons)}}


KEPT = {
    "a step": trace("rl.loop", "rl.rank.step", "rl.sample", "chat tiny", "execute_tool search"),
    "a run": trace("rl.run"),
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
    **{f"nothing special, {number}": ordinary() for number in range(100)},
}
#: By the name of a span of the life cycle, a trace that was let go before that span came.
BEFORE_LIFECYCLE = {name: ordinary() for name in ("rl.run", "rl.checkpoint", "rl.sync", "rl.weight_sync")}
LIFECYCLE = {
    name: span(name, trace_id=spans[0]["traceId"], parent=spans[0]["spanId"])
    for name, spans in BEFORE_LIFECYCLE.items()
}


def late(spans: list[dict]) -> dict:
    """A span that comes after its trace was decided; its error would keep a trace that is not decided yet."""
    return span("chat tiny", trace_id=spans[0]["traceId"], parent=spans[0]["spanId"], error=True)


LATE_OF_KEPT = [late(KEPT["a step"]), late(KEPT["a span somewhere in the trace asks for it"])]
LATE_OF_GONE = {name: late(spans) for name, spans in BEFORE_LIFECYCLE.items()}

STEP_ID = "0" * 15 + "1" * 17
STEP = span("rl.loop", trace_id=STEP_ID)
RANKS = [span("rl.rank.step", {"rl.rank": rank}, trace_id=STEP_ID, parent=STEP["spanId"]) for rank in range(4)]
PHASES = [span("rl.train", trace_id=STEP_ID, parent=rank["spanId"]) for rank in RANKS]
CALLS = [span("chat tiny", trace_id=STEP_ID, parent=rank["spanId"]) for rank in RANKS]
STEP_AT_FIRST = [STEP, *RANKS[:2], *PHASES[:2], *CALLS[:1]]


@pytest.fixture(scope="module")
def left(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What one gateway without a share for the rest let through of all these traces: ids of spans."""
    variables = {**FAST, "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0"}
    folder = tmp_path_factory.mktemp("policies")
    with CollectorProcess(otelcol_rl, ["gateway.yaml", FILE_SINK], folder, variables) as gateway:
        kept, gone = [*KEPT.values(), STEP_AT_FIRST], [*LET_GO.values(), *BEFORE_LIFECYCLE.values()]
        send(gateway, *KEPT.values(), *gone)
        send(gateway, CALLS[:1], [RANKS[0], PHASES[0]], [RANKS[1], STEP], PHASES[1:2])
        wait_for(lambda: ids(gateway.spans()) >= all_ids(kept), "all that is kept")
        wait_for(lambda: decided(gateway, "false") >= len(gone), "the decisions to let go")
        send(gateway, *([LIFECYCLE[name], LATE_OF_GONE[name]] for name in LIFECYCLE))
        send(gateway, *([each] for each in LATE_OF_KEPT), CALLS[1:], RANKS[2:], PHASES[2:])
        more = [LATE_OF_KEPT, LIFECYCLE.values(), RANKS, PHASES, CALLS]
        wait_for(lambda: ids(gateway.spans()) >= all_ids(more), "what belongs to it and comes late")
        gateway.stop()
        return ids(gateway.spans())


def decided(gateway: CollectorProcess, kept: str) -> float:
    shown = own_metrics(gateway)["otelcol_processor_tail_sampling_global_count_traces_sampled"]
    return sum(count for labels, count in shown.items() if f'sampled="{kept}"' in labels)


def test_every_policy_keeps_its_traces_whole(left: set[str]):
    assert {why for why, spans in KEPT.items() if not ids(spans) <= left} == set()


def test_all_others_go(left: set[str]):
    assert {why for why, spans in LET_GO.items() if ids(spans) & left} == set()
    kept = all_ids([*KEPT.values(), LATE_OF_KEPT, LIFECYCLE.values(), [STEP, *RANKS, *PHASES, *CALLS]])
    assert left == kept


@pytest.mark.parametrize("name", LIFECYCLE)
def test_a_lifecycle_span_is_kept_when_its_trace_was_let_go_long_before(left: set[str], name: str):
    assert LIFECYCLE[name]["spanId"] in left
    assert not ids(BEFORE_LIFECYCLE[name]) & left


def test_late_spans_follow_the_decision_whichever_it_was(left: set[str]):
    assert ids(LATE_OF_KEPT) <= left
    assert not ids(LATE_OF_GONE.values()) & left


def test_a_step_trace_is_whole_although_its_ranks_send_apart_and_at_different_times(left: set[str]):
    assert ids([STEP, *RANKS, *PHASES, *CALLS]) <= left


def test_of_the_rest_and_of_outliers_exactly_the_traces_go_whose_id_is_below_their_share(start_collector):
    shares = {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "12.5", "OTEL_RL_COLLECTOR_OUTLIER_PERCENTAGE": "30"}
    gateway = start_collector("gateway.yaml", FILE_SINK, **FAST, **shares)
    rest = [ordinary() for _ in range(300)]
    truncated = [trace("rl.rollout", "chat tiny", **finished("length")) for _ in range(60)]
    unrewarded = [trace("rl.rollout", "chat tiny", root=rewarded(0.0)) for _ in range(60)]
    send_together(gateway, rest + truncated + unrewarded)
    gateway.stop()  # decides what is pending
    expected = [spans for spans in rest if in_share(spans, 12.5)]
    expected += [spans for spans in truncated + unrewarded if in_share(spans, 30)]
    assert ids(gateway.spans()) == all_ids(expected)


def test_decisions_are_remembered_for_ten_times_as_many_traces_as_are_undecided():
    sampling = yaml.safe_load((CONFIGURATION / "gateway.yaml").read_text())["processors"]["tail_sampling"]
    assert set(sampling["decision_cache"]) == {"sampled_cache_size", "non_sampled_cache_size"}
    for size in sampling["decision_cache"].values():
        assert size >= 10 * sampling["num_traces"]
