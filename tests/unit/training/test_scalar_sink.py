"""One sink for the values of trainers and trackers: which source wins, what is recorded of what."""

from __future__ import annotations

import math
import os
import threading
from contextvars import Context
from weakref import WeakSet

import numpy as np
import pytest

import otel_rl
from otel_rl.process import process_identity
from otel_rl.telemetry import Scope, cardinality_budgets, deferral, drops, lifecycle, redaction
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import scalars, steps
from otel_rl.training.scalars import CANONICAL, KEPT_FOR_STEPS, MAXIMUM_KEYS, ScalarSink, Source
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")


@pytest.fixture
def sink(recorded):
    drops.reset()
    return ScalarSink()


def bodies(recorded):
    return [event.body for event in recorded.events("rl.step")]


def gauges(recorded):
    points = recorded.metrics().get("rl.trainer.metric", ())
    return {point.attributes["rl.trainer.metric.key"]: point.value for point in points}


def give_from_a_thread(key, value):
    thread = threading.Thread(target=otel_rl.metric, args=(key, value))
    thread.start()
    thread.join()


def train(value):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    give_from_a_thread("program/of thread", value)
    loop.leave()


def test_the_order_of_sources_is_the_documented_one():
    assert [source.name for source in sorted(Source)] == [
        "PRODUCER",
        "TRAINER",
        "LIGHTNING",
        "ACCELERATE",
        "DEEPSPEED",
        "RAY",
        "WANDB",
        "MLFLOW",
        "SWANLAB",
        "TRACKIO",
        "TENSORBOARD",
        "TORCH",
    ]


def test_a_value_is_an_exact_record_a_gauge_and_the_metric_of_its_key(sink, recorded):
    sink.log(_scope, Source.TRAINER, 3, {"loss": 0.1 + 0.2}, first=2)

    [event] = recorded.events("rl.step")
    assert event.body == {"loss": 0.30000000000000004}
    assert event.attributes["rl.loop.iteration"] == 3
    assert (event.attributes["rl.step.first"], event.attributes["rl.step.last"]) == (2, 3)
    metrics = recorded.metrics()
    # Trainers of other tests in this process have scopes of their own.
    assert 0.30000000000000004 in [point.value for point in metrics["rl.train.loss"]]
    assert {"loss"} <= {point.attributes["rl.trainer.metric.key"] for point in metrics["rl.trainer.metric"]}


def test_the_difference_of_engine_and_trainer_of_a_loop_of_one_s_own_is_the_metric_of_its_key(recorded):
    otel_rl.metric("logprob_difference", 0.02)
    otel_rl.metric("logprob_difference/max", 0.4)

    metrics = recorded.metrics()
    # Tests before this one may have left points of trainers.
    assert 0.02 in [point.value for point in metrics["rl.sample.logprob_difference.mean"]]
    assert 0.4 in [point.value for point in metrics["rl.sample.logprob_difference.max"]]


def test_log_calls_inside_a_log_call_are_part_of_it(sink, recorded):
    token = sink.begin_call(Source.TRAINER)
    sink.log(_scope, Source.TRAINER, 1, {"loss": 1.0})
    inner = sink.begin_call(Source.WANDB)
    # transformers renames it for wandb.
    sink.log(_scope, Source.WANDB, 1, {"train/loss": 1.0})
    sink.end_call(inner)
    sink.end_call(token)
    sink.log(_scope, Source.WANDB, 1, {"program/value": 2.0})

    assert bodies(recorded) == [{"loss": 1.0}, {"program/value": 2.0}]


def test_what_we_write_ourselves_is_not_recorded_whoever_s_log_call_it_is_in(sink, recorded):
    with scalars.not_captured():
        token = sink.begin_call(Source.MLFLOW)
        sink.log(_scope, Source.MLFLOW, 1, {"health/P1": 1.0})
        sink.end_call(token)
    token = sink.begin_call(Source.TRAINER)
    with scalars.not_captured():
        sink.log(_scope, Source.TRAINER, 1, {"loss": -1.0})
    sink.log(_scope, Source.TRAINER, 1, {"loss": 1.0})
    sink.end_call(token)

    assert bodies(recorded) == [{"loss": 1.0}]


@pytest.mark.parametrize("better", list(Source)[:-1])
def test_of_two_sources_of_a_key_the_better_one_is_recorded(sink, recorded, better):
    worse = Source(better + 1)
    for step in (1, 2, 3):
        sink.log(_scope, better, step, {"kl": float(step)})
        sink.log(_scope, worse, step, {"kl": -1.0, "own": 0.5})

    assert bodies(recorded) == [{"kl": 1.0}, {"own": 0.5}, {"kl": 2.0}, {"own": 0.5}, {"kl": 3.0}, {"own": 0.5}]


def test_a_better_source_that_comes_later_takes_over_at_the_next_step(sink, recorded):
    for step in (1, 2):
        sink.log(_scope, Source.WANDB, step, {"kl": -1.0})
        sink.log(_scope, Source.TRAINER, step, {"kl": float(step)})

    assert bodies(recorded) == [{"kl": -1.0}, {"kl": 2.0}]


def test_a_source_that_has_stopped_gives_its_keys_up(sink, recorded):
    sink.log(_scope, Source.TRAINER, 1, {"kl": 1.0})
    sink.log(_scope, Source.WANDB, 1 + KEPT_FOR_STEPS, {"kl": 2.0})
    sink.log(_scope, Source.WANDB, 2 + KEPT_FOR_STEPS, {"kl": 3.0})

    assert bodies(recorded) == [{"kl": 1.0}, {"kl": 3.0}]


def test_the_same_source_may_log_a_key_twice_at_a_step(sink, recorded):
    for value in (1.0, 2.0):
        sink.log(_scope, Source.TRAINER, 1, {"kl": value})

    assert bodies(recorded) == [{"kl": 1.0}, {"kl": 2.0}]


def test_values_that_are_not_finite_stay_in_the_record_and_are_counted(sink, recorded):
    sink.log(
        _scope, Source.TRAINER, 1, {"loss": math.nan, "kl": math.inf, "entropy": 1.5, "note": "text", "none": None}
    )

    [body] = bodies(recorded)
    assert math.isnan(body["loss"])
    assert (body["kl"], body["note"], body["none"]) == (math.inf, "text", None)
    assert all(math.isfinite(value) for value in gauges(recorded).values())
    assert drops.snapshot()["metrics", "non_finite"] == 2


def test_a_whole_number_beyond_a_float_is_left_out_of_a_log_call_and_counted(sink, recorded):
    sink.log(_scope, Source.TRAINER, 1, {"perplexity of trainer": 10**400, "loss after it": 0.5})
    deferral.drain_all()

    assert bodies(recorded) == [{"loss after it": 0.5}]
    assert gauges(recorded)["loss after it"] == 0.5
    assert drops.snapshot()["logs", "non_finite"] == 1


def test_numbers_of_numpy_are_numbers_and_truth_values_and_texts_are_in_the_record_only(sink, recorded):
    sink.log(
        _scope,
        Source.TRAINER,
        1,
        {"single": np.float32(0.5), "whole": np.int64(3), "yes": True, "no": np.bool_(False), "text": "x", 7: 8},
    )

    [body] = bodies(recorded)
    assert (body["single"], body["whole"], body["yes"], body["text"], body["7"]) == (0.5, 3, True, "x", 8)
    assert not {"yes", "text"} & gauges(recorded).keys()


def log_texts(sink, source):
    sink.log(_scope, source, 1, {"note": "a prompt", "eval": {"split": "x"}, "accuracy": 0.5})
    sink.log_single(_scope, source, 2, "note", "a prompt")
    sink.log_single(_scope, source, 2, "accuracy", 0.25)


@pytest.mark.parametrize("source", [Source.WANDB, Source.MLFLOW, Source.SWANLAB, Source.TRACKIO, Source.TENSORBOARD])
def test_texts_for_a_tracker_are_left_out_and_counted(sink, recorded, monkeypatch, source):
    monkeypatch.delenv(CAPTURE_ENVIRONMENT_VARIABLE, raising=False)
    before = drops.snapshot().get(("logs", "text"), 0)
    log_texts(sink, source)

    assert bodies(recorded) == [{"accuracy": 0.5}, {"accuracy": 0.25}]
    assert drops.snapshot()[("logs", "text")] == before + 3


@pytest.mark.parametrize(
    ("source", "switch"), [(Source.TRAINER, ""), (Source.WANDB, "true"), (Source.WANDB, "EVENT_ONLY")]
)
def test_texts_of_a_trainer_and_those_that_the_user_wants_are_in_the_record(
    sink, recorded, monkeypatch, source, switch
):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, switch)
    log_texts(sink, source)

    first, *singles = bodies(recorded)
    assert first == {"note": "a prompt", "eval/split": "x", "accuracy": 0.5}
    assert singles == [{"note": "a prompt"}, {"accuracy": 0.25}]


def test_texts_for_a_tracker_pass_the_redaction_of_the_user(sink, recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "true")
    monkeypatch.setattr(redaction, "text", lambda value, _: None if value == "x" else "***")
    log_texts(sink, Source.WANDB)

    assert bodies(recorded)[:2] == [{"note": "***", "accuracy": 0.5}, {"note": "***"}]


def test_what_is_no_number_is_left_out_and_counted(sink, recorded):
    sink.log(_scope, Source.TRAINER, 1, {"list": [1], "array": np.ones(3), "kl": 0.5})

    assert bodies(recorded) == [{"kl": 0.5}]
    assert drops.snapshot() == {("logs", "unsupported_type"): 1, ("logs", "array"): 1}


def test_the_values_of_a_mapping_in_a_mapping_are_logged_as_the_tracker_names_them(sink, recorded):
    sink.log(_scope, Source.WANDB, 1, {"eval": {"math": {"acc": 0.5}}, "kl": 1.0}, separator=".")

    assert bodies(recorded) == [{"eval.math.acc": 0.5, "kl": 1.0}]


def test_tensors_are_read_where_that_waits_for_nothing(sink, recorded):
    torch = pytest.importorskip("torch")

    class Untouchable(torch.Tensor):
        def item(self):
            pytest.fail("reading a tensor waits for its device")

    sink.log(
        _scope,
        Source.TRAINER,
        1,
        {"loss": torch.ones(1).as_subclass(Untouchable), "kl": torch.tensor(0.5), "meta": torch.ones(1, device="meta")},
    )

    assert bodies(recorded) == [{"kl": 0.5}]


def test_keys_beyond_the_budget_are_dropped_and_counted(sink, recorded, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    sink.log(_scope, Source.TRAINER, 1, {f"budget_{number}": float(number) for number in range(310)})

    assert len(bodies(recorded)[0]) == 310
    assert len([key for key in gauges(recorded) if key.startswith("budget_")]) == 299
    assert drops.snapshot()["metrics", "cardinality"] == 11


def test_what_is_remembered_of_keys_is_bounded(sink, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    for number in range(MAXIMUM_KEYS + 10):
        sink.measure(_scope, Source.TENSORBOARD, number, f"key {number}", 1.0)

    assert len(sink._owners) == MAXIMUM_KEYS


def test_a_metric_of_the_producer_wins_over_the_trainer(recorded, monkeypatch):
    from otel_rl.api import operations

    sink = ScalarSink()
    monkeypatch.setattr(operations, "sink", sink)
    with otel_rl.step(4):
        otel_rl.metric("producer/kl", 0.25)
    sink.log(_scope, Source.TRAINER, 4, {"producer/kl": 0.5})

    assert gauges(recorded)["producer/kl"] == 0.25
    assert bodies(recorded) == [{"producer/kl": 0.25}]


class TestValuesThatTheProgramGives:
    """By ``otel_rl.metric``."""

    def test_those_of_a_step_are_one_record_at_its_end_with_the_last_value_of_each_key(self, recorded):
        for number in (1, 2):
            with otel_rl.step(number):
                otel_rl.metric("program/size", 10.0 * number)
                otel_rl.metric("program/speed", 1.5)
                assert len(recorded.events("rl.step")) == number - 1
                otel_rl.metric("program/size", 10.0 * number + 1)
        deferral.drain_all()

        first, second = recorded.events("rl.step")
        assert first.body == {"program/size": 11.0, "program/speed": 1.5}
        assert second.body == {"program/size": 21.0, "program/speed": 1.5}
        assert (first.attributes["rl.loop.iteration"], second.attributes["rl.loop.iteration"]) == (1, 2)
        [step] = [
            span for span in recorded.spans if span.name == "rl.rank.step" and span.context.span_id == first.span_id
        ]
        assert step.attributes["rl.loop.iteration"] == 1

    def test_those_outside_of_a_step_are_gauges_alone(self, recorded):
        otel_rl.metric("program/outside", 1.0)

        assert gauges(recorded)["program/outside"] == 1.0
        assert recorded.events("rl.step") == []

    def test_one_of_a_step_that_the_program_names_is_a_record_of_that_step(self, recorded):
        with otel_rl.step(5):
            otel_rl.metric("program/accuracy", 0.5, step=3)
            otel_rl.metric("program/size", 10.0, step=5)
            otel_rl.metric("program/size", 11.0)
        otel_rl.metric("program/accuracy", 0.75, step=np.int64(4))
        deferral.drain_all()

        found = [(event.attributes["rl.loop.iteration"], event.body) for event in recorded.events("rl.step")]
        assert sorted(found, key=lambda one: one[0]) == [
            (3, {"program/accuracy": 0.5}),
            (4, {"program/accuracy": 0.75}),
            (5, {"program/size": 11.0}),
        ]
        assert gauges(recorded)["program/accuracy"] == 0.75

    def test_one_of_a_named_step_is_recorded_by_one_rank(self, recorded, monkeypatch):
        follower = process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
        monkeypatch.setattr(process_identity, "_current", follower)
        otel_rl.metric("program/of rank 1", 1.0, step=3)
        deferral.drain_all()

        assert gauges(recorded)["program/of rank 1"] == 1.0
        assert recorded.events("rl.step") == []

    def test_one_rank_records_them(self, recorded, monkeypatch):
        follower = process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
        monkeypatch.setattr(process_identity, "_current", follower)
        with otel_rl.step(1):
            otel_rl.metric("program/of rank 1", 1.0)
        deferral.drain_all()

        assert gauges(recorded)["program/of rank 1"] == 1.0
        assert recorded.events("rl.step") == []

    def test_a_value_that_is_not_finite_is_in_the_record(self, recorded):
        with otel_rl.step(1):
            otel_rl.metric("program/loss", float("nan"))
        deferral.drain_all()

        [event] = recorded.events("rl.step")
        assert math.isnan(event.body["program/loss"])

    def test_a_value_that_is_not_finite_stays_whatever_comes_after_it_in_the_step(self, recorded):
        for number, values in enumerate([(0.5, math.nan, 0.25), (0.5, 0.25)], 1):
            with otel_rl.step(number):
                for value in values:
                    otel_rl.metric("program/loss", value)
        deferral.drain_all()

        first, second = recorded.events("rl.step")
        assert math.isnan(first.body["program/loss"])
        assert second.body == {"program/loss": 0.25}

    def test_a_whole_number_beyond_a_float_costs_itself_and_nothing_else(self, recorded):
        before = drops.snapshot().get(("metrics", "non_finite"), 0)
        with otel_rl.step(1):
            for value in (10**400, 12.5):
                otel_rl.metric("program/perplexity", value)
            otel_rl.metric("program/large", 10**30)
        deferral.drain_all()

        [event] = recorded.events("rl.step")
        assert event.body == {"program/perplexity": 12.5, "program/large": 1e30}
        assert gauges(recorded)["program/large"] == 1e30
        assert drops.snapshot()["metrics", "non_finite"] == before + 1

    def test_what_comes_when_the_step_has_ended_is_in_no_record(self, recorded):
        step = steps.begin(1, _scope)
        steps.finish()
        scalars.sink.measure(_scope, Source.PRODUCER, 1, "program/late", 1.0, step)
        deferral.drain_all()

        assert recorded.events("rl.step") == []

    def test_a_thread_without_context_gives_to_the_step_of_the_only_loop(self, recorded, monkeypatch):
        monkeypatch.setattr(steps, "_begun", WeakSet())
        with otel_rl.step(1, loop=f"only {id(self)}"):
            give_from_a_thread("program/of thread", 1.0)
        deferral.drain_all()

        assert bodies(recorded) == [{"program/of thread": 1.0}]

    def test_a_thread_without_context_gives_to_each_of_two_calls_of_train_that_follow_each_other(
        self, recorded, monkeypatch
    ):
        monkeypatch.setattr(steps, "_begun", WeakSet())
        for value in (1.0, 2.0):
            train(value)
        deferral.drain_all()

        assert bodies(recorded) == [{"program/of thread": 1.0}, {"program/of thread": 2.0}]

    def test_a_loop_of_the_parent_is_none_of_a_forked_child(self, recorded, monkeypatch):
        monkeypatch.setattr(steps, "_begun", WeakSet())
        parents = steps.loop_for_next_step("of the parent")
        parents.begin(1, _scope)
        child = os.fork()
        if not child:
            found = None
            try:
                lifecycle.run_after_fork_callbacks()
                TrainerLoop().enter().begin_step(1, _scope)
                # A thread's context: nothing of a loop is in it.
                found = Context().run(steps.where).certain_step
            finally:
                os._exit(0 if found is not None else 1)
        _, status = os.waitpid(child, 0)
        parents.finish()

        assert os.waitstatus_to_exitcode(status) == 0

    def test_between_the_steps_of_one_loop_nothing_goes_to_the_step_of_another(self, recorded):
        begun, done = threading.Event(), threading.Event()

        def criticise():
            with otel_rl.step(700, loop="critic between"):
                begun.set()
                done.wait(60)

        with otel_rl.step(1, loop="actor between"):
            pass
        thread = threading.Thread(target=criticise)
        thread.start()
        begun.wait(60)
        otel_rl.metric("program/of actor", 5.0)
        done.set()
        thread.join()
        deferral.drain_all()

        assert bodies(recorded) == []
        assert gauges(recorded)["program/of actor"] == 5.0

    def test_a_step_keeps_so_many_and_no_more(self, recorded, monkeypatch):
        monkeypatch.setattr(scalars, "MAXIMUM_VALUES", 2)
        before = drops.snapshot().get(("logs", "value_limit"), 0)
        with otel_rl.step(1):
            for number in range(5):
                otel_rl.metric(f"program/{number}", 1.0)
            otel_rl.metric("program/0", 2.0)
        deferral.drain_all()

        [event] = recorded.events("rl.step")
        assert event.body == {"program/0": 2.0, "program/1": 1.0}
        assert drops.snapshot()["logs", "value_limit"] == before + 3

    def test_the_rules_are_told_once_for_each_step(self, recorded, monkeypatch):
        told = []
        monkeypatch.setattr(scalars.sink.listeners, "callbacks", [told.append])
        for number in (1, 2):
            with otel_rl.step(number):
                otel_rl.metric("program/kl", 7.0)
                otel_rl.metric("program/kl", 8.0)
        deferral.drain_all()

        of_calls = [(call.iteration, call.first, call.values) for call in told]
        assert of_calls == [(1, None, {"program/kl": 8.0}), (2, None, {"program/kl": 8.0})]

    def test_each_of_two_loops_has_its_own(self, recorded):
        with otel_rl.step(1, loop="actor"):
            otel_rl.metric("program/kl", 1.0)
        with otel_rl.step(1, loop="critic"):
            otel_rl.metric("program/kl", 2.0)
        deferral.drain_all()

        found = {event.attributes["rl.loop.name"]: event.body for event in recorded.events("rl.step")}
        assert found == {"actor": {"program/kl": 1.0}, "critic": {"program/kl": 2.0}}


def test_a_gauge_has_the_value_that_was_logged_last_however_it_was_logged(sink, recorded, posts):
    sink.log(_scope, Source.PRODUCER, 1, {"logged twice": 1.0})
    sink.measure(_scope, Source.PRODUCER, 2, "logged twice", 2.0)
    deferral.drain_all()
    assert gauges(recorded)["logged twice"] == 2.0


def test_of_two_keys_of_one_metric_the_one_that_was_logged_last_counts(sink, recorded, posts):
    for step, (key, value) in enumerate([("kl", 1.0625), ("objective/kl", 2.0625), ("kl", 3.0625)]):
        sink.log(_scope, Source.TRAINER, step, {key: value})
    deferral.drain_all()
    # Other tests may have left points with other attributes.
    values = {point.value for point in recorded.metrics()[CANONICAL["kl"].name]}
    assert 3.0625 in values
    assert 2.0625 not in values
