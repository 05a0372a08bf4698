"""vLLM's own API for weight transfer, a shared prefix and too little memory, on a real engine."""

from __future__ import annotations

import json
import subprocess

import pytest
from conformance.live_check import check
from engine_runs import SCRIPTS, run

pytest.importorskip("vllm")

IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
STEPS, PREFIX, REQUESTS, TOKENS = 2, 96, 3, 64
UPDATE = ["start_weight_update", "update_weights", "update_weights", "finish_weight_update", "reset_prefix_cache"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("transfer")


@pytest.fixture(scope="module")
def plain(folder, model):
    return run("transfer_program.py", folder / "plain", str(model), watched=False, **IN_PROCESS)


@pytest.fixture(scope="module")
def watched(folder, model):
    return run("transfer_program.py", folder / "watched", str(model), watched=True, **IN_PROCESS)


def test_the_engine_gets_and_makes_what_it_does_without_us(plain, watched):
    assert watched.result == plain.result
    assert watched.result["generated"][0] != watched.result["generated"][1]


def test_each_part_of_an_update_is_an_operation_and_says_what_it_brings(watched):
    assert watched.store.operations() == ["init_weight_transfer_engine", *UPDATE * STEPS]
    found = [span["attributes"] for span in watched.store.named("rl.sync")][1:]
    sizes = [one["rl.sync.size"] for one in found if one["rl.sync.operation"] == "update_weights"]
    assert sum(sizes[:2]) == sum(sizes[2:]) == watched.result["bytes"]
    assert int(watched.store.last("rl.sync.transferred")["asInt"]) == STEPS * watched.result["bytes"]
    finished = [one["rl.policy.version"] for one in found if one["rl.sync.operation"] == "finish_weight_update"]
    assert finished == ["v1", "v2"]


def test_what_is_sampled_afterwards_is_of_the_new_version_and_knows_its_age(watched):
    first, second = (span["attributes"] for span in watched.store.named("text_completion tiny"))
    assert (first["rl.policy.version"], second["rl.policy.version"]) == ("0", "v1")
    assert second["rl.inference.weight_version"] == "v1"
    finished = next(one for one in watched.store.named("rl.sync") if "rl.policy.version" in one["attributes"])
    called = watched.store.named("text_completion tiny")[1]
    between = (int(called["startTimeUnixNano"]) - int(finished["endTimeUnixNano"])) / 1e9
    assert second["rl.policy.age"] == pytest.approx(between, abs=0.1)


def test_a_prefix_found_in_the_cache_and_requests_pushed_out_of_memory_are_counted(watched):
    for span in [*watched.store.named("text_completion tiny"), *watched.store.named("rl.rank.step")]:
        found = span["attributes"]
        assert (found["rl.engine.requests"], found["rl.engine.truncated_samples"]) == (REQUESTS, REQUESTS)
        assert found["rl.engine.preemptions"] > 0
    for span in watched.store.named("rl.rank.step"):
        assert span["attributes"]["rl.engine.cached_tokens"] == PREFIX
        assert span["attributes"]["rl.engine.output_tokens"] == REQUESTS * TOKENS
    assert int(watched.store.last("rl.engine.cached.tokens")["asInt"]) == STEPS * PREFIX
    assert int(watched.store.last("rl.engine.preempted")["asInt"]) > 0


def test_the_report_has_what_an_update_costs_by_stage(watched, folder):
    data = folder / "watched" / "data"
    command = [SCRIPTS / "otel-rl", "report", data, "--json", "-o", folder / "page.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    stages = {one["operation"]: one for one in json.loads(done.stdout)["weight_syncs"]}
    assert {name: stages[name]["times"] for name in dict.fromkeys(UPDATE)} == {
        name: UPDATE.count(name) * STEPS for name in UPDATE
    }
    spans = [
        one for one in watched.store.named("rl.sync") if one["attributes"]["rl.sync.operation"] == "update_weights"
    ]
    took = sum(int(one["endTimeUnixNano"]) - int(one["startTimeUnixNano"]) for one in spans) / 1e9
    assert stages["update_weights"]["seconds"] == pytest.approx(took, rel=0.01)
    assert stages["update_weights"]["bytes"] == STEPS * watched.result["bytes"]


def test_what_is_recorded_conforms_to_the_registry(watched, folder):
    assert check(folder / "watched") == []
