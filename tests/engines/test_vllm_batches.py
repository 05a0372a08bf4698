"""A program with vLLM's `LLM` in its own process, plain and under `opentelemetry-instrument`."""

from __future__ import annotations

import pytest
from conformance.live_check import check
from engine_runs import run

pytest.importorskip("vllm")
pytestmark = pytest.mark.quick

#: As most post-training programs run it: the engine in the process of the trainer.
IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("batches")


@pytest.fixture(scope="module")
def plain(folder, model):
    return run("batch_program.py", folder / "plain", str(model), watched=False, **IN_PROCESS)


@pytest.fixture(scope="module")
def watched(folder, model):
    return run("batch_program.py", folder / "watched", str(model), watched=True, **IN_PROCESS)


def test_the_engine_generates_what_it_generates_without_us(plain, watched):
    assert watched.result == plain.result
    [manifest] = watched.store.manifests
    assert manifest["instrumentors"]["otel_rl_vllm"] == {"state": "active", "reason": ""}


def test_a_batch_is_one_span_in_the_phase_that_called_for_it(watched):
    samples = watched.store.named("rl.sample")
    batches = watched.store.named("text_completion tiny")
    assert [batch["parentSpanId"] for batch in batches] == [sample["spanId"] for sample in samples]
    for batch in batches:
        found = batch["attributes"]
        assert (found["rl.engine.requests"], found["rl.engine.samples"], found["gen_ai.usage.output_tokens"]) == (
            2,
            4,
            24,
        )
        assert found["gen_ai.response.finish_reasons"] == ["length"] * 4
        assert found["rl.inference.logprobs.count"] == 24
        assert found["rl.engine.profiled_requests"] == 2
        assert found["rl.engine.prefill_time"] > 0
        assert found["rl.engine.decode_time"] > 0


def test_a_conversation_is_a_child_of_its_rollout(watched):
    rollouts = watched.store.named("rl.rollout")
    chats = watched.store.named("chat tiny")
    assert [(chat["traceId"], chat["parentSpanId"]) for chat in chats] == [
        (rollout["traceId"], rollout["spanId"]) for rollout in rollouts
    ]


def test_times_of_each_request_are_in_histograms(watched):
    labels = {"gen_ai__operation__name": "text_completion"}
    for metric in (
        "rl.engine.queue.duration",
        "rl.engine.prefill.duration",
        "rl.engine.decode.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
        "gen_ai.server.request.duration",
    ):
        assert int(watched.store.last(metric, **labels)["count"]) == 4, metric
    assert int(watched.store.last("rl.engine.call.duration", **labels)["count"]) == 2
    assert int(watched.store.last("rl.engine.finished", **labels)["asInt"]) == 8
    generated = labels | {"gen_ai__token__type": "output"}
    assert int(watched.store.last("rl.engine.tokens", **generated)["asInt"]) == 48


def test_a_step_sums_up_what_its_calls_of_the_engine_took(watched):
    for step in watched.store.named("rl.rank.step"):
        found = step["attributes"]
        assert (found["rl.engine.requests"], found["rl.engine.samples"]) == (3, 5)
        assert (found["rl.engine.input_tokens"], found["rl.engine.output_tokens"]) == (34, 28)
        assert found["rl.engine.decode_time"] > 0


def test_operations_on_weights_memory_and_caches_belong_to_the_phase_that_syncs(watched):
    operations = ["sleep", "wake_up", "apply_model", "new_weights", "reset_prefix_cache", "update_weight_version"]
    assert watched.store.operations() == operations * 2
    sleeps = [one for one in watched.store.named("rl.sync") if one["attributes"]["rl.sync.operation"] == "sleep"]
    assert [one["parentSpanId"] for one in sleeps] == [one["spanId"] for one in watched.store.named("rl.sample")]
    assert int(watched.store.last("rl.sync.operation.duration", rl__sync__operation="sleep")["count"]) == 2


def test_generation_after_new_weights_is_of_a_later_version(watched):
    versions = [span["attributes"]["rl.policy.version"] for span in watched.store.named("text_completion tiny")]
    assert versions == ["0", "v1"]
    assert watched.result[0] != watched.result[1]
    assert int(watched.store.last("rl.sync.updates")["asInt"]) == 1


def test_an_operation_that_brings_tensors_says_how_many_bytes(watched):
    brought = [one["attributes"].get("rl.sync.size") for one in watched.store.named("rl.sync")]
    assert brought == [None, None, None, 256, None, None] * 2
    assert int(watched.store.last("rl.sync.transferred", rl__sync__operation="new_weights")["asInt"]) == 512


def test_what_is_recorded_conforms_to_the_registry(watched, folder):
    assert check(folder / "watched") == []
