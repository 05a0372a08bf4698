"""slime's driver, manager and ranks: steps and phases by what the driver waits for, values, rollouts.

With stand-ins of what slime 0.3.1 has, which needs SGLang and Megatron: `tests/systems` compares a real run with
slime's own files.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from importlib import metadata

import pytest
import slime_stand_in as slime
from slime_stand_in import Sample

from otel_rl.instrumentors.slime import SlimeInstrumentor, rollouts
from otel_rl.telemetry import deferral
from otel_rl.training import trainer_loop, trajectories, trajectory_shares


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    for name, module in slime.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(rollouts, "_step", None)
    trajectory_shares.forget()
    slime.LOGGED.clear()
    instrumentor = SlimeInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    assert not instrumentor.missing
    yield instrumentor
    instrumentor.uninstrument()
    while trainer_loop.running_loops:
        trainer_loop.running_loops[-1].leave()
    trajectory_shares.forget()


def _train(program=slime.train, *further, **options):
    program(slime.arguments(**options), *further)
    deferral.drain_all()


def _make(make=slime.completed, sample=None, **options):
    sample = sample or Sample(7, 12)
    made = asyncio.run(slime.function("generate_and_rm")(slime.arguments(**options), sample, {"make": make}))
    deferral.drain_all()
    return made


def _steps(recorded):
    return [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.loop"]


def _phases(recorded, step=None):
    found = sorted((span for span in recorded.spans if "rl.phase" in span.attributes), key=lambda span: span.start_time)
    return [
        span.attributes["rl.phase"]
        for span in found
        if "rl.rollout.id" not in span.attributes and step in (None, span.attributes.get("rl.loop.iteration"))
    ]


def _rows(recorded):
    trajectories.record()
    rows = []
    for event in recorded.events("rl.trajectories"):
        size = len(event.body["rl.rollout.id"])
        columns = {key: list(values) for key, values in event.body.items() if len(values) == size}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [slime.train, slime.train_async])
def test_the_steps_have_the_numbers_of_their_samples(recorded, program):
    _train(program)
    assert _steps(recorded) == [0, 1, 2]
    root = next(span for span in recorded.spans if span.name == "rl.loop")
    assert root.attributes["rl.loop.source"] == "known"
    assert root.attributes["rl.model.name"] == "Qwen3-0.6B"


def test_a_run_that_goes_on_counts_on(recorded):
    _train(start_rollout_id=5, num_rollout=7)
    assert _steps(recorded) == [5, 6]
    assert recorded.metrics()["rl.train.steps"][0].value == 2


def test_what_the_driver_waits_for_is_its_phase(recorded):
    _train(num_rollout=1, save_interval=1, eval_interval=1)
    assert _phases(recorded, 0) == ["sample", "train", "log_probs", "checkpoint", "sync", "evaluate"]


def test_an_evaluation_before_the_first_step_is_in_none(recorded):
    _train(num_rollout=1, eval_interval=1)
    assert _phases(recorded)[0] == "evaluate"
    first = next(span for span in recorded.spans if span.name == "rl.evaluate")
    assert "rl.loop.iteration" not in first.attributes


def test_the_asynchronous_loop_waits_for_the_next_samples_at_the_end_of_a_step(recorded):
    _train(slime.train_async)
    assert _phases(recorded, 0) == ["sample", "train", "log_probs", "sample", "sync"]
    assert _phases(recorded, 2) == ["train", "log_probs", "sync"]


def test_a_loop_that_brings_weights_every_second_step_has_the_same_steps(recorded):
    _train(slime.train_async, 2, num_rollout=4)
    assert _steps(recorded) == [0, 1, 2, 3]
    assert Counter(_phases(recorded))["sync"] == 2


def test_a_step_that_fails_is_recorded_as_failed_and_the_error_is_the_programs(recorded):
    def fail():
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        _train(update=fail)
    deferral.drain_all()
    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "ValueError"}
    assert failed == {"rl.train", "rl.rank.step", "rl.loop"}


def test_the_loop_ends_with_the_manager(recorded):
    _train()
    assert not trainer_loop.running_loops


def test_results_and_the_manager_are_not_kept_alive(recorded):
    manager, _ = slime.function("create_rollout_manager")(slime.arguments(), None)
    ref = manager.generate.remote(0)
    loop = trainer_loop.running_loops[-1]
    assert ref not in gc.get_referents(loop._calls)
    del manager, ref
    gc.collect()
    assert loop.manager() is None


def test_calls_of_other_actors_and_waits_for_other_results_are_no_phase(recorded):
    slime.function("create_rollout_manager")(slime.arguments(), None)
    other = slime.ActorHandle(slime.RolloutManager(slime.arguments()))
    ref = other.dispose.remote()
    assert slime.function("get")(object_refs=[ref]) == [None]
    assert slime.function("get")([]) == []
    assert _steps(recorded) == _phases(recorded) == []
    assert trainer_loop.running_loops


# -- values ------------------------------------------------------------------------------------------------------------


def test_what_is_logged_without_a_tracker_is_recorded_with_its_step(recorded):
    _train(num_rollout=2)
    logged = [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in recorded.events("rl.step")]
    assert logged == [(metrics[key], metrics) for metrics, key in slime.LOGGED]
    assert [step for step, _ in logged] == [0, 0, 1, 1]


def test_the_timer_admits_what_it_times_without_us(recorded):
    slime.TIMED.clear()
    _train(num_rollout=1)
    assert slime.TIMED == ["start train", "start ref_log_probs", "end ref_log_probs", "end train"]


# -- rollouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [slime.train, slime.train_async])
def test_each_sample_is_a_row_of_the_step_that_trains_on_it(recorded, program):
    _train(program)
    rollouts = [span for span in recorded.spans if span.name == "rl.rollout"]
    made = {span.attributes["rl.rollout.id"]: span.attributes["rl.loop.iteration"] for span in rollouts}
    assert made == {"0": 0, "1": 0, "2": 1, "3": 1, "4": 2, "5": 2}
    assert {row["rl.rollout.id"]: row["rl.rollout.reward"] for row in _rows(recorded)} == {
        str(index): float(index) for index in range(6)
    }
    steps = {span.context.trace_id for span in recorded.spans if span.name == "rl.loop"}
    assert not steps & {span.context.trace_id for span in rollouts}


def test_the_row_has_group_length_and_the_end_in_the_words_of_the_engine(recorded):
    def cut(sample):
        sample.status, sample.response_length = Sample.Status.TRUNCATED, 8
        return sample

    _make(cut)
    [row] = _rows(recorded)
    assert (row["rl.group.id"], row["rl.sample.id"], row["rl.rollout.stop_reason"]) == ("7", "12", "length")
    body = recorded.events("rl.trajectories")[0].body
    assert dict(zip(body["rl.rollout.metric.names"], body["rl.rollout.metric.values"], strict=True)) == {
        "response_length": [8.0]
    }


def test_an_aborted_sample_is_discarded_and_has_no_reward(recorded):
    def abort(sample):
        sample.status = Sample.Status.ABORTED
        return sample

    _make(abort)
    [row] = _rows(recorded)
    assert row["rl.rollout.status"] == "discarded"
    assert row["rl.rollout.discard_reason"] == "aborted"
    assert row.get("rl.rollout.reward") is None


def test_a_sample_that_is_made_already_is_no_rollout(recorded):
    made = Sample(1, 2, status=Sample.Status.COMPLETED)
    assert _make(sample=made) is made
    assert not [span for span in recorded.spans if span.name == "rl.rollout"]


def test_a_rollout_that_is_made_into_several_samples_has_the_reward_of_the_last(recorded):
    _make(lambda sample: [slime.completed(Sample(7, 12, reward=reward)) for reward in (0.25, 0.75)])
    [row] = _rows(recorded)
    assert row["rl.rollout.reward"] == 0.75


def test_of_several_values_the_one_that_is_trained_on_is_the_reward(recorded):
    def score(sample):
        sample.reward = {"score": 1.0, "format": 0.5, "note": "text"}
        return slime.completed(sample)

    _make(score, reward_key="score", custom_rm_path="package.module.judge")
    [row] = _rows(recorded)
    assert row["rl.rollout.reward"] == 1.0
    names = {event.attributes["gen_ai.evaluation.name"] for event in recorded.events("gen_ai.evaluation.result")}
    assert names == {"judge", "judge/format"}


@pytest.mark.parametrize(
    ("sample", "options", "name"),
    [
        (Sample(), {"rm_type": "dapo"}, "dapo"),
        (Sample(metadata={"rm_type": "f1"}), {"rm_type": "dapo"}, "f1"),
        (Sample(custom_rm_path="a.b"), {"custom_rm_path": "c.d"}, "b"),
        (Sample(metadata=None), {"rm_type": None}, "reward"),
    ],
)
def test_a_reward_is_named_after_what_gave_it(recorded, sample, options, name):
    _make(sample=sample, **options)
    assert recorded.events("gen_ai.evaluation.result")[0].attributes["gen_ai.evaluation.name"] == name


def test_rewards_of_a_group_are_those_of_its_rollouts(recorded):
    _train(num_rollout=1, group_rm=True)
    assert {row["rl.rollout.id"]: row["rl.rollout.reward"] for row in _rows(recorded)} == {"0": 2.0, "1": 2.0}


def test_scoring_is_a_phase_of_the_rollout(recorded):
    _make()
    scored = next(span for span in recorded.spans if span.name == "rl.reward")
    assert scored.context.trace_id == recorded.span("rl.rollout").context.trace_id


def test_samples_of_an_evaluation_are_marked_and_have_ids_of_their_own(recorded):
    _train(num_rollout=1, eval_interval=1)
    evaluated = [row for row in _rows(recorded) if row.get("rl.rollout.evaluation")]
    assert [row["rl.sample.id"] for row in evaluated] == ["0", "0"]
    assert len({row["rl.rollout.id"] for row in evaluated} | {"0"}) == 3


def test_a_rollout_that_fails_is_recorded_as_failed(recorded):
    def fail(_):
        raise RuntimeError("of the engine")

    with pytest.raises(RuntimeError, match="of the engine"):
        _make(fail)
    deferral.drain_all()
    assert recorded.span("rl.rollout").attributes["error.type"] == "RuntimeError"


# -- which slime -------------------------------------------------------------------------------------------------------


def _distribution(monkeypatch, version):
    class Installed(metadata.Distribution):
        def read_text(self, filename):
            return f"Metadata-Version: 2.1\nName: slime\nVersion: {version}\n" if filename == "METADATA" else None

        def locate_file(self, path):
            return path

    found = [] if version is None else [Installed()]
    monkeypatch.setattr(metadata, "distributions", lambda **_: iter(found))


def test_a_checkout_on_the_path_is_supported_and_the_package_of_pypi_is_not(instrumented, monkeypatch):
    _distribution(monkeypatch, None)
    assert instrumented.instrumentation_dependencies() == ()
    _distribution(monkeypatch, "0.0.0")
    assert instrumented.instrumentation_dependencies() == ("slime >= 0.3.1, < 0.4",)


def test_the_package_of_pypi_loads_nothing():
    assert "slime" not in SlimeInstrumentor.triggers()
    assert {name.split(".", 1)[0] for name in SlimeInstrumentor.triggers()} == {"slime"}
