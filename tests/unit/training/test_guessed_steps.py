"""Guessed steps: where they begin and end, what their parts are, and who ends the guessing."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from itertools import count
from types import SimpleNamespace
from weakref import WeakSet

import pytest

import otel_rl
from otel_rl.health.curves import Curves
from otel_rl.health.rule_table import INPUTS, RULES
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.telemetry import Scope, deferral, drops
from otel_rl.training import guessed_batches, guessed_records, guessed_steps, steps
from otel_rl.training.guessed_records import MissingGradients
from otel_rl.training.guessed_steps import GuessedSteps
from otel_rl.training.metric_keys import CANONICAL
from otel_rl.training.scalars import Source, sink
from otel_rl.training.step_sampling import FIRST_STEPS
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")
TRAIN, TEST = 1, 2
#: Of ours, in a step with one batch.
MOST_CALLS = 54


class Optimizer:
    def __init__(self, size, parameter=None):
        self.size, self.parameter, self.rate = size, parameter or object(), 0.1
        self.missing = None


READINGS = SimpleNamespace(
    size=lambda optimizer: optimizer.size,
    first_parameter=lambda optimizer: optimizer.parameter,
    learning_rate=lambda optimizer: optimizer.rate,
    missing_gradients=lambda optimizer: optimizer.missing,
    value=lambda loss: loss,
    batch_size=lambda batch: batch,
)


@pytest.fixture(autouse=True)
def fresh_loops(monkeypatch):
    monkeypatch.setattr(steps, "_programs", [])
    monkeypatch.setattr(steps, "_numbers", count())
    monkeypatch.setattr(steps, "may_guess", True)
    monkeypatch.setattr(steps, "_last_iteration", None)
    monkeypatch.setattr(steps, "_begun", WeakSet())
    monkeypatch.setattr(steps, "_last_begun", None)
    token = steps._mine.set(None)
    yield
    steps._mine.reset(token)


class Loop:
    """A program's loop, as an instrumentor reports it; each part takes so many seconds."""

    def __init__(self, clock):
        self.clock = clock
        self.guesses = GuessedSteps(_scope, READINGS)

    def batch(self, seconds=1, loader=TRAIN, size=(8, 0), *, learns=True, is_first=False):
        since = deferral.now()
        self.clock.passes(seconds)
        self.guesses.batch_arrived(loader, since, size, learns=learns, is_first=is_first)

    def backward(self, seconds=1, loss=None):
        is_followed = self.guesses.backward_begins(loss)
        self.clock.passes(seconds)
        if is_followed:
            self.guesses.backward_ended()

    def step(self, optimizer, seconds=1):
        self.guesses.optimizer_begins(optimizer, False)
        self.clock.passes(seconds)
        self.guesses.optimizer_ended(optimizer)


@pytest.fixture
def loop(clock):
    return Loop(clock)


def of_kind(recorded, name):
    spans = [span for span in recorded.spans if span.name == name]
    return [((span.start_time - span.end_time) // -(10**9), span.attributes["rl.loop.iteration"]) for span in spans]


def iterations(recorded):
    return [iteration for _, iteration in of_kind(recorded, "rl.rank.step")]


def test_a_step_is_one_of_the_optimizer_after_a_backward_pass_however_many(recordings, loop):
    optimizer = Optimizer(10)
    for passes in (1, 4, 2):
        for _ in range(passes):
            loop.backward()
        loop.step(optimizer)
        loop.step(optimizer)  # as `super().step()`, or a wrapper that calls it once per group
    assert iterations(recordings) == [1, 2, 3]


def test_a_step_runs_little_code_on_the_thread_of_the_program(recordings, loop, idle_io_thread, monkeypatch):
    monkeypatch.setattr(steps.openers, "callbacks", [lambda _: None] * 4)
    monkeypatch.setattr(steps.contributors, "callbacks", [lambda _: None] * 4)
    optimizer, calls = Optimizer(1), Counter()

    def one_step():
        loop.guesses.batch_arrived(TRAIN, deferral.now(), (8, 0), learns=True, is_first=False)
        loop.guesses.backward_begins(0.5)
        loop.guesses.backward_ended()
        loop.guesses.optimizer_begins(optimizer, False)
        loop.guesses.optimizer_ended(optimizer)

    for _ in range(3):
        one_step()
    sys.setprofile(lambda frame, event, _: calls.update([event] if "otel_rl" in frame.f_code.co_filename else []))
    try:
        one_step()
    finally:
        sys.setprofile(None)
    # Functions called; it is the same however busy the machine is.
    assert calls["call"] <= MOST_CALLS


def test_a_step_says_that_it_is_guessed_on_root_and_rank_span(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    for name in ("rl.loop", "rl.rank.step"):
        assert recordings.span(name).attributes["rl.loop.source"] == LoopSource.GUESSED


def _short_steps(loop, number, optimizer=None, seconds=0.005):
    optimizer = optimizer or Optimizer(1)
    for _ in range(number):
        loop.backward(seconds=seconds)
        loop.step(optimizer, seconds=seconds)


def test_of_many_short_steps_some_have_spans_and_values_and_all_are_measured(recordings, loop):
    drops.reset()
    _short_steps(loop, 200)
    assert iterations(recordings) == [*range(1, FIRST_STEPS + 1), *range(80, 201, 16)]
    assert len(of_kind(recordings, "rl.loop")) == len(iterations(recordings))
    measured = recordings.metrics()
    assert measured["rl.loop.duration"][0].count == measured["rl.train.steps"][0].value == 200
    assert [one.attributes["rl.loop.iteration"] for one in recordings.events("rl.step")] == iterations(recordings)
    # A rank's step and two parts of each.
    assert drops.snapshot()["traces", "short_step"] == (200 - len(iterations(recordings))) * 3


def test_a_loss_that_is_no_number_is_in_the_record_of_a_short_step_too(recordings, loop):
    optimizer = Optimizer(1)
    _short_steps(loop, 70, optimizer)
    loop.backward(seconds=0.005, loss=math.nan)
    loop.step(optimizer, seconds=0.005)
    assert recordings.events("rl.step")[-1].attributes["rl.loop.iteration"] == 71


def test_a_short_step_in_which_something_was_recorded_has_its_spans(recordings, loop):
    optimizer = Optimizer(1)
    _short_steps(loop, 70, optimizer)
    loop.backward(seconds=0.005)
    assert loop.guesses._loop.step.span_context.is_valid
    loop.step(optimizer, seconds=0.005)
    assert iterations(recordings)[-1] == 71


def test_a_long_step_among_short_ones_has_its_spans(recordings, loop):
    optimizer = Optimizer(1)
    _short_steps(loop, 70, optimizer)
    _short_steps(loop, 1, optimizer, seconds=0.1)
    _short_steps(loop, 2, optimizer)
    found = iterations(recordings)
    assert 71 in found
    assert 73 not in found


def test_steps_that_are_long_again_have_spans_all_of_them(recordings, loop):
    optimizer = Optimizer(1)
    _short_steps(loop, 70, optimizer)
    _short_steps(loop, 40, optimizer, seconds=1)
    assert iterations(recordings)[-30:] == list(range(81, 111))


def test_steps_given_and_known_say_so(recordings):
    with otel_rl.step(1):
        pass
    trainer = TrainerLoop().enter()
    trainer.begin_step(2, _scope)
    trainer.leave()
    found = [span.attributes["rl.loop.source"] for span in recordings.spans if span.name == "rl.rank.step"]
    assert found == [LoopSource.GIVEN, LoopSource.KNOWN]


def test_steps_follow_each_other_without_a_gap_from_the_first_batch_on(recordings, loop, clock):
    optimizer, began = Optimizer(1), clock.now()
    for _ in range(2):
        loop.batch(seconds=2)
        clock.passes(3)  # forward
        loop.backward(seconds=4)
        loop.step(optimizer, seconds=5)
    first, second = (span for span in recordings.spans if span.name == "rl.rank.step")
    assert first.start_time == began
    assert first.end_time == second.start_time == began + 14 * 10**9
    for name, seconds in (("rl.data_wait", 2), ("rl.forward", 3), ("rl.backward", 4), ("rl.optimizer", 5)):
        assert of_kind(recordings, name) == [(seconds, 1), (seconds, 2)]
        parts = [span for span in recordings.spans if span.name == name]
        assert [part.parent.span_id for part in parts] == [first.context.span_id, second.context.span_id]


def test_all_parts_are_in_the_histogram_and_the_first_few_are_spans(recordings, loop):
    for _ in range(40):
        loop.batch()
        loop.backward()
    loop.step(Optimizer(1))
    points = {point.attributes["rl.phase"]: point for point in recordings.metrics()["rl.phase.duration"]}
    assert {phase: point.count for phase, point in points.items()} == {
        "data_wait": 40,
        "forward": 40,
        "backward": 40,
        "optimizer": 1,
    }
    assert len(of_kind(recordings, "rl.backward")) == guessed_records.SPANS_PER_STEP


def test_parts_beyond_those_that_are_kept_are_durations(recordings, loop, monkeypatch):
    monkeypatch.setattr(guessed_steps, "MAXIMUM_PARTS", 2)
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    for _ in range(5):
        loop.backward()
    loop.step(optimizer)
    points = {point.attributes["rl.phase"]: point for point in recordings.metrics()["rl.phase.duration"]}
    assert points["backward"].count == 6
    assert points["optimizer"].count == 2


def test_without_a_data_loader_no_forward_pass_is_made_up(recordings, loop, clock):
    optimizer = Optimizer(1)
    for _ in range(2):
        clock.passes(3)
        loop.backward()
        loop.step(optimizer)
    assert of_kind(recordings, "rl.forward") == []
    assert of_kind(recordings, "rl.rank.step") == [(2, 1), (5, 2)]


def test_forward_and_backward_inside_of_a_closure_are_no_part_of_the_optimizer(recordings, loop, clock):
    optimizer = Optimizer(1)
    loop.batch()
    clock.passes(7)  # what the trainer does before
    loop.guesses.optimizer_begins(optimizer, True)
    clock.passes(2)
    loop.backward(seconds=3)
    clock.passes(4)
    loop.guesses.optimizer_ended(optimizer)
    assert of_kind(recordings, "rl.forward") == [(2, 1)]
    assert of_kind(recordings, "rl.backward") == [(3, 1)]
    assert of_kind(recordings, "rl.optimizer") == [(4, 1)]


def test_a_closure_that_raises_leaves_nothing_open(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.guesses.optimizer_begins(optimizer, True)
        loop.guesses.backward_begins(None)
        loop.guesses.backward_ended(ValueError())
    for _ in range(3):
        loop.backward()
        loop.step(optimizer)
    assert iterations(recordings) == [1, 2, 3]


def test_a_backward_pass_inside_of_one_is_no_part_of_its_own(recordings, loop, clock):
    loop.guesses.backward_begins(None)
    loop.backward()
    clock.passes(1)
    loop.guesses.backward_ended()
    loop.step(Optimizer(1))
    assert of_kind(recordings, "rl.backward") == [(2, 1)]


def test_an_optimizer_that_steps_within_the_backward_pass_ends_a_step_once(recordings, loop, clock):
    optimizers = [Optimizer(2), Optimizer(8), Optimizer(4), Optimizer(16)]
    for _ in range(3):
        loop.guesses.backward_begins(None)
        for optimizer in optimizers:
            loop.step(optimizer)
        loop.guesses.backward_ended()
    assert iterations(recordings) == [1, 2, 3]
    assert of_kind(recordings, "rl.optimizer") == []


@pytest.mark.parametrize("sizes", [(5, 10), (10, 5)])
def test_of_two_optimizers_that_take_turns_the_larger_one_counts(recordings, loop, sizes):
    first, second = map(Optimizer, sizes)
    for _ in range(4):
        loop.backward()
        loop.step(first)
        loop.backward()
        loop.step(second)
    assert iterations(recordings) == [1, 2, 3, 4]


def test_a_larger_optimizer_that_comes_later_goes_on_with_the_numbers(recordings, loop):
    head, model = Optimizer(5), Optimizer(50)
    for optimizer in (head, head, head, model, model):
        loop.backward()
        loop.step(optimizer)
    assert iterations(recordings) == [1, 2, 3, 4, 5]


def test_an_optimizer_made_anew_for_the_same_model_leads_at_once(recordings, loop):
    parameter = object()
    kept = [Optimizer(5, parameter) for _ in range(3)]
    for optimizer in kept:
        loop.backward()
        loop.step(optimizer)
    assert iterations(recordings) == [1, 2, 3]


def test_a_leader_that_the_program_has_left_behind_gives_way(recordings, loop, monkeypatch):
    monkeypatch.setattr(guessed_steps, "_STEPS_WITHOUT_LEADER", 2)
    model, head = Optimizer(50), Optimizer(5)
    for optimizer in (model, head, head, head, head):
        loop.backward()
        loop.step(optimizer)
    assert iterations(recordings) == [1, 2, 3]


def test_a_step_without_a_backward_pass_is_none(recordings, loop):
    loop.step(Optimizer(1))
    assert recordings.spans == []


def test_gradients_without_an_optimizer_are_no_step_and_leave_none_open(recordings, loop, monkeypatch):
    monkeypatch.setattr(steps, "is_missing", lambda: False)
    for _ in range(5):
        loop.batch()
        loop.backward()
    assert loop.guesses._loop.step is None
    assert steps.last_iteration() is None
    assert recordings.spans == []


def test_the_batch_after_the_last_step_opens_none(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    loop.batch()
    assert steps.where().step is None


def test_what_follows_the_last_step_is_no_step_at_the_end_of_the_process(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    loop.backward()
    assert steps.where().step is not None
    steps.finish()
    assert iterations(recordings) == [1]


def test_a_first_step_that_never_came_leaves_the_steps_missing(recordings, loop, monkeypatch):
    monkeypatch.setattr(steps, "is_missing", lambda: steps.last_iteration() is None)
    loop.backward()
    assert steps.where().step is not None
    steps.finish()
    assert steps.last_iteration() is None
    assert recordings.spans == []


def test_passes_that_no_optimizer_follows_are_counted_once_each(recordings, loop, monkeypatch):
    monkeypatch.setattr(guessed_steps, "running", loop.guesses)
    for _ in range(3):
        # Activations that are computed again have a pass inside of it.
        loop.guesses.backward_begins(None)
        assert not loop.guesses.backward_begins(None)
        loop.guesses.backward_ended()
    assert guessed_steps.passes_without_step() == 3
    loop.step(Optimizer(1))
    assert guessed_steps.passes_without_step() == 0


def test_data_read_before_the_training_is_no_part_of_the_first_step(recordings, loop, clock):
    for _ in range(3):
        loop.batch(seconds=100)
    clock.passes(1)
    loop.backward()
    loop.step(Optimizer(1))
    assert of_kind(recordings, "rl.data_wait") == [(100, 1)]
    assert of_kind(recordings, "rl.rank.step") == [(103, 1)]


def test_a_pause_between_two_cells_of_a_notebook_is_part_of_no_step(recordings, loop, clock):
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    clock.passes(1000)
    loop.guesses.goes_on()
    loop.backward()
    loop.guesses.goes_on()
    loop.step(optimizer)
    assert of_kind(recordings, "rl.rank.step") == [(2, 1), (2, 2)]


def test_a_loader_read_to_its_end_without_gradients_is_an_evaluation_between_two_steps(recordings, loop, clock):
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    for _ in range(3):
        loop.batch(seconds=1, loader=TEST, learns=False)
        clock.passes(4)
    loop.guesses.loader_ended(TEST)
    loop.backward(seconds=2)
    loop.step(optimizer, seconds=2)
    evaluation = recordings.span("rl.evaluate")
    assert evaluation.end_time - evaluation.start_time == 15 * 10**9
    assert evaluation.attributes.get("rl.loop.iteration") is None
    assert of_kind(recordings, "rl.rank.step") == [(2, 1), (4, 2)]
    assert of_kind(recordings, "rl.data_wait") == []


def evaluate(loop, batches=3, loader=TEST):
    """Read a loader to its end, with what turns gradients off inside of the loop."""
    for number in range(batches):
        loop.batch(seconds=1, loader=loader, is_first=number == 0)
        loop.clock.passes(4)
    loop.guesses.loader_ended(loader)


def test_a_loader_read_to_its_end_without_a_backward_pass_is_an_evaluation_too(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.batch(seconds=1, is_first=True)
        loop.backward(seconds=2)
        loop.step(optimizer, seconds=2)
        loop.guesses.loader_ended(TRAIN)
        evaluate(loop)
    assert of_kind(recordings, "rl.rank.step") == [(5, 1), (5, 2)]
    assert of_kind(recordings, "rl.data_wait") == [(1, 1), (1, 2)]
    evaluations = [span for span in recordings.spans if span.name == "rl.evaluate"]
    assert [one.end_time - one.start_time for one in evaluations] == [15 * 10**9] * 2
    assert all("torch/batch_size/loader_2" not in event.body for event in recordings.events("rl.step"))
    assert [event.body["torch/batch_size"] for event in recordings.events("rl.step")] == [8, 8]


def test_an_evaluation_between_two_backward_passes_leaves_the_step_its_own_batches(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.batch(is_first=True)
        loop.backward()
        evaluate(loop)
        loop.batch()
        loop.backward()
        loop.step(optimizer)
    assert of_kind(recordings, "rl.data_wait") == [(1, 1), (1, 1), (1, 2), (1, 2)]
    # The first one was before the program is known to train.
    assert [span.name for span in recordings.spans].count("rl.evaluate") == 1
    assert [event.body["torch/batch_size"] for event in recordings.events("rl.step")] == [16, 16]


def test_a_batch_that_came_before_an_evaluation_counts_and_its_wait_does_not(recordings, loop, clock):
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    loop.batch(is_first=True)
    evaluate(loop)
    clock.passes(3)
    loop.backward(seconds=1)
    loop.step(optimizer, seconds=1)
    assert of_kind(recordings, "rl.rank.step") == [(2, 1), (5, 2)]
    assert of_kind(recordings, "rl.forward") == [(3, 2)]
    assert of_kind(recordings, "rl.data_wait") == []
    assert recordings.events("rl.step")[1].body["torch/batch_size"] == 8


def test_an_evaluation_before_the_training_is_no_part_of_its_first_step(recordings, loop):
    evaluate(loop)
    loop.batch(is_first=True)
    loop.backward()
    loop.step(Optimizer(1))
    assert of_kind(recordings, "rl.rank.step") == [(3, 1)]
    assert of_kind(recordings, "rl.data_wait") == [(1, 1)]
    recorded = recordings.events("rl.step")[0].body
    assert (recorded["torch/batch_size"], "torch/batch_size/loader_2" in recorded) == (8, False)


def test_the_rest_of_a_loader_that_trains_is_no_evaluation(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.batch(is_first=True)
        loop.backward()
        loop.step(optimizer)
        loop.batch()
        loop.guesses.loader_ended(TRAIN)
    assert "rl.evaluate" not in [span.name for span in recordings.spans]
    assert [event.body["torch/batch_size"] for event in recordings.events("rl.step")] == [8, 16]


def test_a_closure_may_read_all_of_its_data_before_its_backward_pass(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.guesses.optimizer_begins(optimizer, True)
        evaluate(loop, loader=TRAIN)
        loop.backward()
        loop.guesses.optimizer_ended(optimizer)
    assert "rl.evaluate" not in [span.name for span in recordings.spans]
    assert recordings.events("rl.step")[1].body["torch/batch_size"] == 24


def test_the_wait_for_the_next_batch_before_a_step_ends_is_of_that_step(recordings, loop):
    optimizer = Optimizer(1)
    loop.batch(is_first=True)
    for _ in range(2):
        loop.backward()
        loop.batch(seconds=2, size=(4, 0))
        loop.step(optimizer)
    assert of_kind(recordings, "rl.data_wait") == [(1, 1), (2, 1), (2, 2)]
    assert [event.body["torch/batch_size"] for event in recordings.events("rl.step")] == [8, 4]


def test_waits_before_a_step_is_open_are_never_lost(recordings, loop, monkeypatch):
    monkeypatch.setattr(guessed_batches, "MAXIMUM_PARTS", 2)
    monkeypatch.setattr(guessed_steps, "MAXIMUM_PARTS", 3)
    optimizer = Optimizer(1)
    for _ in range(2):
        loop.backward()
        loop.step(optimizer)
        for number in range(9):
            loop.batch(loader=number % 2, is_first=number < 2)
    loop.backward()
    loop.step(optimizer)
    waits = [one for one in recordings.metrics()["rl.phase.duration"] if one.attributes["rl.phase"] == "data_wait"]
    assert sum(point.sum for point in waits) == pytest.approx(18)


def test_batches_without_gradients_before_a_backward_pass_are_no_evaluation(recordings, loop):
    optimizer = Optimizer(1)
    for _ in range(3):
        loop.batch(learns=False)
        loop.backward()
        loop.step(optimizer)
    loop.guesses.loader_ended(TRAIN)
    assert "rl.evaluate" not in [span.name for span in recordings.spans]
    assert iterations(recordings) == [1, 2, 3]


def test_without_training_a_loader_leaves_nothing(recordings, loop):
    loop.batch(learns=False)
    loop.guesses.loader_ended(TRAIN)
    assert recordings.spans == []


def test_values_of_a_step_are_logged_with_its_end(recordings, loop, clock):
    loop.batch(seconds=1, size=(8, 64))
    loop.batch(seconds=1, loader=7, size=(2, 0))
    loop.backward(loss=0.5)
    loop.step(Optimizer(1))
    recordings.spans  # noqa: B018 - drains
    (event,) = recordings.events("rl.step")
    assert dict(event.body) == {
        "torch/learning_rate": 0.1,
        "torch/loss": 0.5,
        "torch/batch_size": 8,
        "torch/samples_per_second": 2.0,
        "torch/tokens_per_second": 16.0,
        "torch/batch_size/loader_2": 2,
        "torch/samples_per_second/loader_2": 0.5,
    }
    assert event.attributes["rl.loop.iteration"] == 1
    assert event.timestamp == clock.now()
    points = recordings.metrics()
    assert points["rl.train.tokens"][0].value == 64
    assert points["rl.train.steps"][0].value == 1


def test_values_of_a_step_are_beside_those_that_the_program_logs_and_judged_by_rules_that_fit_any_loop(
    recordings, loop
):
    program, optimizer = Scope("program"), Optimizer(1)
    for epoch in range(3):
        for _ in range(10):
            loop.batch(seconds=1, size=(8, 64))
            loop.backward(loss=0.5)
            loop.guesses.clipped(0.25)
            loop.step(optimizer)
        sink.log(program, Source.TENSORBOARD, epoch, {"loss": 0.1, "batch_size": 80})
    recordings.spans  # noqa: B018 - drains
    bodies = [dict(event.body) for event in recordings.events("rl.step")]
    of_program = [body for body in bodies if "loss" in body]
    assert of_program == 3 * [{"loss": 0.1, "batch_size": 80}]
    guessed = {key for body in bodies if body not in of_program for key in body}
    assert guessed > {"torch/loss", "torch/learning_rate", "torch/grad_norm"}
    assert not guessed & CANONICAL.keys()
    known = Curves({name: one.keys for name, one in INPUTS.items()})
    inputs = {found[0] for key in guessed if (found := known.input_of(key)) is not None}
    assert inputs == {"loss", "loop_learning_rate", "loop_gradient_norm"}
    assert [code for code, rule in RULES.items() if any(inputs & set(needed) for needed in rule.needs)] == [
        "non_finite",
        "loss_divergence",
        "no_update",
    ]
    sources = {event.attributes.get("rl.loop.source") for event in recordings.events("rl.step") if "loss" in event.body}
    assert sources == {None}
    assert [event.attributes.get("rl.loop.source") for event in recordings.events("rl.step")].count("guessed") == 30


def short_steps(loop, optimizer, number):
    for _ in range(number):
        loop.backward(seconds=0.001)
        loop.step(optimizer, seconds=0.001)


def numbers_with(recordings, key):
    recordings.spans  # noqa: B018 - drains
    return [one.attributes["rl.loop.iteration"] for one in recordings.events("rl.step") if key in one.body]


def test_short_steps_that_change_nothing_have_values_from_the_first_to_the_last(recordings, loop):
    optimizer = Optimizer(1)
    short_steps(loop, optimizer, FIRST_STEPS + 7)
    optimizer.missing = MissingGradients(4, 4)
    short_steps(loop, optimizer, 2 * FIRST_STEPS)
    optimizer.missing = MissingGradients(0, 4)
    short_steps(loop, optimizer, 40)

    numbers = numbers_with(recordings, "torch/without_gradient")
    first, back = FIRST_STEPS + 8, 3 * FIRST_STEPS + 8
    assert numbers[:FIRST_STEPS] == list(range(first, first + FIRST_STEPS))
    assert {176, 192, back} <= set(numbers)
    assert back + 1 not in numbers


def test_clipping_is_logged_with_its_limit_where_it_has_one(recordings, loop):
    for limit in (0.5, math.inf):
        loop.backward()
        loop.guesses.clipped(2.0, limit)
        loop.step(Optimizer(1))
    loop.backward()
    loop.step(Optimizer(1))
    assert numbers_with(recordings, "torch/grad_norm") == [1, 2]
    assert numbers_with(recordings, "torch/max_grad_norm") == [1]


def test_values_of_a_step_that_a_library_tells_have_the_keys_of_trainers(recordings, loop):
    engines = SimpleNamespace(
        steps_made=lambda _: 0, size=lambda engine: engine.size, first_parameter=lambda engine: engine,
        optimizer=lambda engine: engine, gradient_norm=lambda _: 2.0,
    )  # fmt: skip
    engine = Optimizer(1)
    loop.guesses.are_told_by(engine, engines, Scope("deepspeed"))
    loop.backward(loss=0.5)
    loop.guesses.update_begins(engine)
    loop.guesses.update_ended(engine)
    recordings.spans  # noqa: B018 - drains
    body = dict(recordings.events("rl.step")[0].body)
    assert (body["loss"], body["learning_rate"], body["grad_norm"]) == (0.5, 0.1, 2.0)


def test_a_value_of_the_program_is_of_the_guessed_step_that_is_open_or_of_the_last_one(recordings, loop, monkeypatch):
    told = []
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    loop.backward()
    otel_rl.metric("program/open", 1.0)
    loop.step(optimizer)
    recordings.spans  # noqa: B018 - drains
    monkeypatch.setattr(sink.listeners, "callbacks", [lambda call: told.append((call.iteration, call.context))])
    otel_rl.metric("program/size", 17.0)
    otel_rl.metric("program/speed", float("nan"))
    recordings.spans  # noqa: B018 - drains
    of_program = [event for event in recordings.events("rl.step") if any(key[:7] == "program" for key in event.body)]
    assert {key for event in of_program for key in event.body} == {"program/open", "program/size", "program/speed"}
    assert {event.attributes["rl.loop.iteration"] for event in of_program} == {2}
    assert {(iteration, steps.loop_in(context)) for iteration, context in told} == {(2, loop.guesses._loop)}
    points = {point.attributes["rl.trainer.metric.key"]: point for point in recordings.metrics()["rl.trainer.metric"]}
    assert points["program/size"].value == 17.0


def test_other_ranks_and_programs_without_a_step_yet_record_gauges_alone(recordings, loop, monkeypatch):
    otel_rl.metric("program/early", 1.0)
    loop.backward()
    loop.step(Optimizer(1))
    follower = process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
    monkeypatch.setattr(process_identity, "_current", follower)
    otel_rl.metric("program/of rank 1", 1.0)
    recordings.spans  # noqa: B018 - drains
    assert not [event for event in recordings.events("rl.step") if any("program" in key for key in event.body)]


def test_of_several_backward_passes_no_loss_is_made_up(recordings, loop):
    loop.backward(loss=0.5)
    loop.backward(loss=0.25)
    loop.step(Optimizer(1))
    recordings.spans  # noqa: B018 - drains
    assert "torch/loss" not in recordings.events("rl.step")[0].body


def test_nothing_is_current_in_a_guessed_step(recordings, loop):
    from opentelemetry.context import get_current

    before = get_current()
    loop.backward()
    assert get_current() is before
    loop.step(Optimizer(1))
    assert get_current() is before


def test_a_step_of_the_program_ends_the_guessing_and_takes_an_open_guess_back(recordings, loop):
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    loop.backward()
    with otel_rl.step(1), otel_rl.phase("train"):
        pass
    assert steps.may_guess is False
    found = [(span.attributes["rl.loop.iteration"], span.attributes["rl.loop.source"]) for span in recordings.spans
             if span.name == "rl.rank.step"]  # fmt: skip
    assert found == [(1, LoopSource.GUESSED), (1, LoopSource.GIVEN)]
    given = [span for span in recordings.spans if span.name == "rl.loop"][-1]
    assert recordings.span("rl.train").context.trace_id == given.context.trace_id


def test_a_trainer_ends_the_guessing_before_its_first_step(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    loop.backward()
    trainer = TrainerLoop().enter()
    assert steps.may_guess is False
    assert steps.where().step is None
    trainer.leave()
    assert iterations(recordings) == [1]


def test_known_loops_are_numbered_as_if_nothing_had_been_guessed(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    with otel_rl.step(1):
        pass
    assert steps._programs[0].key == ()
    guessed, given = (span for span in recordings.spans if span.name == "rl.loop")
    assert guessed.context.trace_id != given.context.trace_id


def test_batches_that_another_thread_fetches_ahead_are_counted_and_no_wait(recordings, loop):
    optimizer = Optimizer(1)
    loop.backward()
    loop.step(optimizer)
    fetcher = threading.Thread(target=loop.batch)
    fetcher.start()
    fetcher.join(60)
    loop.backward()
    loop.step(optimizer)
    assert of_kind(recordings, "rl.data_wait") == []
    assert recordings.events("rl.step")[1].body["torch/batch_size"] == 8


def test_a_forked_child_begins_anew(recordings, loop):
    loop.backward()
    loop.step(Optimizer(1))
    steps.stop_guessing()
    steps._forget()
    loop.guesses.forget()
    assert steps.may_guess
    loop.backward()
    loop.step(Optimizer(1))
    assert iterations(recordings) == [1, 1]
