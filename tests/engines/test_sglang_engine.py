"""A real SGLang `Engine` in the program, on the CPU: calls, streams and operations on its weights."""

from __future__ import annotations

import pytest
from conformance.live_check import check
from engine_runs import run

pytest.importorskip("sglang")


@pytest.fixture(scope="module")
def engine(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("sglang_engine")
    variables = {"SGLANG_USE_CPU_ENGINE": "1"}
    watched = run("sglang_engine_program.py", folder / "watched", str(model), watched=True, **variables)
    watched.plain = run("sglang_engine_program.py", folder / "plain", str(model), watched=False, **variables)
    watched.data = folder / "watched" / "data"
    return watched


def calls(engine):
    """Attributes of the calls, by the rollout around them."""
    found = [span["attributes"] for span in engine.store.spans if span["name"].startswith("text_completion")]
    return {one.get("rl.rollout.id"): one for one in found}


def test_the_program_gets_what_it_gets_without_us(engine):
    assert engine.result == engine.plain.result
    assert engine.result["refused"] == "ValueError"
    assert len(set(engine.result["text"])) == 1


def test_a_call_has_its_tokens_times_and_version(engine):
    call = calls(engine)["generate"]
    assert (call["gen_ai.usage.output_tokens"], call["rl.engine.requests"]) == (4, 1)
    assert call["gen_ai.response.finish_reasons"] == ["length"]
    assert 0 < call["rl.engine.queue_time"] < call["rl.engine.time_to_first_token"] < call["rl.engine.request_time"]
    assert call["rl.engine.decode_throughput"] > 0
    assert call["rl.inference.weight_version"] == "default"


def test_a_batch_is_one_call_of_its_prompts(engine):
    call = calls(engine)["batch"]
    assert (call["rl.engine.requests"], call["rl.engine.samples"]) == (2, 4)
    assert call["gen_ai.usage.output_tokens"] == 16


@pytest.mark.parametrize("name", ["stream", "async stream"])
def test_a_stream_ends_with_its_last_chunk(engine, name):
    call = calls(engine)[name]
    assert (call["rl.inference.stream.ended"], call["gen_ai.usage.output_tokens"]) == ("completed", 4)


def test_a_streamed_batch_counts_each_of_its_requests(engine):
    call = calls(engine)["stream of a batch"]
    assert (call["rl.engine.requests"], call["gen_ai.usage.output_tokens"]) == (2, 8)


def test_a_stream_that_the_program_leaves_is_no_error_and_a_refusal_is_one(engine):
    found = calls(engine)
    assert found["left"]["rl.inference.stream.ended"] == "closed"
    assert "error.type" not in found["left"]
    assert found["refused"]["error.type"] == "ValueError"


def test_the_step_sums_up_its_calls_and_has_the_sync(engine):
    first, second = (step["attributes"] for step in engine.store.named("rl.rank.step"))
    assert (first["rl.engine.requests"], second["rl.engine.requests"]) == (8, 1)
    assert second["rl.engine.max.queue_time"] == second["rl.engine.queue_time"]
    assert "update_weights_from_disk" in [
        span["attributes"].get("rl.sync.operation") for span in engine.store.named("rl.sync")
    ]


def test_what_is_recorded_conforms_to_the_registry(engine):
    assert check(engine.data) == []
