"""A real vLLM beside a trainer, in fp32 and with a large learning rate: syncs that go wrong raise an event at once."""

from __future__ import annotations

import json
import re

import pytest
from conformance.live_check import check
from engine_runs import run

pytest.importorskip("vllm")

IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
STEPS, CLEAN_STEPS = 10, 51
#: Step -> what goes wrong in its sync; the next step is the first to sample after it.
FAULTS = {3: "skipped", 5: "partial", 7: "forgotten", 9: "still"}
#: What has to be told in steps 4, 6 and 8; a sync without an update of the parameters brings nothing, rightly.
TOLD = [(4, "skipped", "apply_model"), (6, "partial", "apply_model"), (8, "skipped", None)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sync")


def program(model, folder, name, *, steps=STEPS, faults=FAULTS, watched=True, **variables):
    given = [f"{step}={fault}" for step, fault in faults.items()]
    return run("sync_program.py", folder / name, str(model), str(steps), *given, watched=watched, **variables)


@pytest.fixture(scope="module")
def plain(folder, model):
    return program(model, folder, "plain", watched=False, **IN_PROCESS)


@pytest.fixture(scope="module")
def checked(folder, model):
    return program(model, folder, "all", OTEL_RL_SYNC_CHECK="all", **IN_PROCESS)


@pytest.fixture(scope="module")
def clean(folder, model):
    return program(model, folder, "clean", steps=CLEAN_STEPS, faults={}, OTEL_RL_SYNC_CHECK="all", **IN_PROCESS)


def problems(found):
    return [event["attributes"] for event in found.store.events if event["eventName"] == "rl.sync.problem"]


def told(found):
    return [(one["rl.loop.iteration"], one["rl.sync.verdict"], one.get("rl.sync.operation")) for one in problems(found)]


def verdicts(found):
    points = found.store.points["rl.sync.checks"]
    last = {point["attributes"]["rl.sync.verdict"]: int(point["asInt"]) for point in points}
    return {name: number for name, number in last.items() if number}


def test_the_program_and_its_engine_give_what_they_give_without_the_comparison(plain, checked):
    """Greedy, seeded and free samples, the numbers of requests, and the tokens from the prefix cache."""
    assert checked.result == plain.result
    assert any(cached for step in plain.result for _, cached, _ in step)
    assert _lines(checked.stderr) <= _lines(plain.stderr) | {"otel-rl"}


def _lines(text):
    """What is said, without numbers: warnings that only one of two runs has would show."""
    return {"otel-rl" if "otel-rl" in line else re.sub(r"[\d.:,|%█-]+", "", line).strip() for line in text.splitlines()}


def test_each_fault_is_told_in_the_next_step_and_nothing_else(checked):
    assert told(checked) == TOLD


def test_a_partial_sync_names_the_tensors_that_it_left_out(checked):
    [partial] = [one for one in problems(checked) if one["rl.sync.verdict"] == "partial"]
    assert partial["rl.sync.tensors.changed"] + partial["rl.sync.tensors.behind"] == partial["rl.sync.tensors.compared"]
    names = partial["rl.sync.tensors.names"]
    assert len(names) == partial["rl.sync.tensors.behind"]
    assert all(name.startswith(("model.layers.1.", "model.norm.")) for name in names)
    assert "model.layers.1.self_attn.qkv_proj.weight" in names


def test_fifty_clean_syncs_raise_nothing(clean):
    assert problems(clean) == []
    assert verdicts(clean) == {"current": CLEAN_STEPS - 1}


def test_log_probabilities_alone_tell_that_nothing_has_come(folder, model):
    found = program(model, folder, "logprobs", OTEL_RL_SYNC_CHECK="logprobs", **IN_PROCESS)
    # Half of the tensors change what the prompt gets: a partial sync shows in checksums only.
    assert told(found) == [one for one in TOLD if one[1] == "skipped"]
    assert "rl.sync.tensors.changed" not in problems(found)[0]


def test_an_engine_that_is_a_process_of_its_own_is_asked_for_log_probabilities(folder, model):
    found = program(model, folder, "process", steps=5, faults={3: "skipped"}, OTEL_RL_SYNC_CHECK="all")
    assert told(found) == [(4, "skipped", "reload_weights")]
    assert "no checksums, log-probabilities only" in found.stderr


def test_without_the_variable_nothing_is_asked_and_nothing_watched(folder, model):
    found = program(model, folder, "off", steps=4, faults={2: "skipped"}, **IN_PROCESS)
    assert problems(found) == []
    assert found.store.points["rl.sync.checks"] == []


def test_the_comparison_is_no_call_of_the_program(checked):
    assert len(checked.store.named("text_completion tiny")) == STEPS
    requests = checked.store.last("rl.engine.finished", gen_ai__operation__name="text_completion")
    assert int(requests["asInt"]) == 3 * STEPS
    operations = [span["attributes"].get("rl.sync.operation") for span in checked.store.named("rl.sync")]
    # One was forgotten, and the phase of each step is the program's.
    assert (operations.count("apply_model"), operations.count(None)) == (STEPS - 1, STEPS)


def test_what_is_recorded_conforms_to_the_registry(checked, folder):
    assert check(folder / "all") == []
    assert json.dumps(problems(checked))
