"""SGLang's own router between the program and a real SGLang; and before two servers that note what reaches them."""

from __future__ import annotations

import pytest
from engine_runs import run
from sglang_server import Router, Served
from support.engine_server import SGLANG_EVENTS, EngineServer
from support.otlp_servers import http_server

pytest.importorskip("sglang")
pytest.importorskip("sglang_router")

#: Through the router, and beside it with a trace of the program's own.
THROUGH, BESIDE = 4, 1
OWN_TRACE = f"{1:032x}", f"{1:016x}"
#: What the router asks a worker about itself.
ABOUT = {"model_path": "tiny", "served_model_name": "tiny", "is_generation": True, "weight_version": "7"}
QUESTIONS = ("/server_info", "/get_server_info", "/model_info", "/get_model_info")


@pytest.fixture(scope="module")
def routed(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("routed")
    with http_server() as receiver, Served(folder / "server", model, receiver, watched=False) as server:
        with Router(folder / "router", server.url) as router:
            server.client = run(
                "router_program.py", folder / "client", router.url, server.url, str(model), watched=True
            )
        server.found = server.requests(THROUGH + BESIDE)
        yield server


def test_the_trace_goes_through_the_router_to_the_engine(routed):
    spans = routed.client.store.named("text_completion")
    through = {
        (call["traceId"], call["spanId"]) for call in spans if call["attributes"]["rl.rollout.id"] != "own-trace"
    }
    assert len(through) == THROUGH
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in routed.found} == {*through, OWN_TRACE}


def test_a_stream_through_the_router_has_its_tokens_times_and_reason(routed):
    calls = {call["attributes"]["rl.rollout.id"]: call["attributes"] for call in calls_of(routed)}
    stream, whole = calls["streamed"], calls["by-httpx"]
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"):
        assert stream[name] == whole[name]
    assert stream["gen_ai.response.time_to_first_chunk"] > 0


def calls_of(routed):
    return routed.client.store.named("text_completion")


def test_the_step_sums_up_what_the_engine_did(routed):
    [step] = [step["attributes"] for step in routed.client.store.named("rl.rank.step")]
    assert step["rl.engine.requests"] == step["rl.engine.profiled_requests"] == THROUGH + BESIDE
    assert step["rl.engine.time_to_first_token"] >= step["rl.engine.prefill_time"] > 0


def test_operations_on_all_workers_and_on_one_are_operations_and_the_router_answers_with_the_new_version(routed):
    syncs = [span["attributes"].get("rl.sync.operation") for span in routed.client.store.named("rl.sync")]
    # The second is the phase of the program.
    assert syncs == ["flush_cache", None, "update_weights_from_disk"]
    versions = [call["attributes"]["rl.inference.weight_version"] for call in calls_of(routed)]
    assert versions == ["default"] * (THROUGH + BESIDE - 1) + ["3"]


@pytest.fixture
def noted(tmp_path):
    """What two servers behind the router were sent, and what the client recorded; their answers are made up."""
    with EngineServer() as one, EngineServer() as other:
        for server in (one, other):
            server.answers, server.chunks = dict.fromkeys(QUESTIONS, lambda body: ABOUT), SGLANG_EVENTS
        with Router(tmp_path / "router", one.url, other.url) as router:
            run("router_program.py", tmp_path / "client", router.url, one.url, "new", watched=True)
        return [[headers for path, headers in server.requests if path == "/generate"] for server in (one, other)]


@pytest.mark.quick
def test_the_router_hands_on_the_trace_context_and_no_baggage_to_both_workers(noted):
    """What it does (0.3.2); the engine does not learn which rollout it works for."""
    assert all(noted)
    beside, through = [], []
    for headers in (headers for one in noted for headers in one):
        names = [name.lower() for name, _ in headers]
        assert names.count("traceparent") == 1
        (beside if "baggage" in names else through).append(headers)
    assert (len(through), len(beside)) == (THROUGH, BESIDE)
