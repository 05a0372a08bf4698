"""Exclusive phases: what interrupts what, how its spans and durations look."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl import clock as clocks
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, deferral, lifecycle
from otel_rl.training import step_sampling, steps
from otel_rl.training.phases import Phase
from otel_rl.training.trainer_loop import PHASE_SPANS_PER_STEP, SPANS_PER_STEP, TrainerLoop

_scope = Scope("test")
SECOND = 1_000_000_000


class ExpectedError(Exception):
    """Raised by the tests."""


class Clock:
    def __init__(self):
        self.seconds = 0

    def counter(self):
        return float(self.seconds)

    def now(self):
        return (1000 + self.seconds) * SECOND

    def passes(self, seconds):
        self.seconds += seconds


class IdleIoThread:
    """Leaves what is posted where it is, until a test looks."""

    started = True

    def wake(self):
        """Nothing: the test drains."""


class Drained:
    """What has been recorded, with what was posted."""

    def __init__(self, recorded):
        self._recorded = recorded

    def __getattr__(self, name):
        deferral.drain_all()
        return getattr(self._recorded, name)


@pytest.fixture(params=["in place", "posted"])
def recorded(recorded, request):
    if request.param == "posted":
        deferral.accept_posts(IdleIoThread())
    yield Drained(recorded)
    steps.finish()
    deferral.accept_posts(None)
    deferral.drain_all()


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(clocks, "counter", found.counter)
    monkeypatch.setattr(clocks, "now", found.now)
    return found


def stretches(recorded):
    """Name, start and end of each phase span, the outer one first."""
    depth = {None: 0}
    for span in reversed(recorded.spans):
        depth[span.context.span_id] = depth.get(span.parent and span.parent.span_id, 0) + 1
    found = [span for span in recorded.spans if "rl.phase" in span.attributes]
    found.sort(key=lambda span: (span.start_time, depth[span.context.span_id]))
    return [(span.name, span.start_time // SECOND - 1000, span.end_time // SECOND - 1000) for span in found]


def durations(recorded):
    points = {
        name: point.sum
        for name, [point, *_] in recorded.metrics().items()
        if name.endswith(".duration") and name != "rl.loop.duration"
    }
    return {name.removeprefix("rl.").removesuffix(".duration"): value for name, value in points.items()}


def test_one_exclusive_phase_inside_another_suspends_it(recorded, clock):
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.phase("sync"):
            clock.passes(5)
        clock.passes(2)

    assert stretches(recorded) == [("rl.sample", 0, 1), ("rl.sync", 1, 6), ("rl.sample", 6, 8)]
    assert durations(recorded) == {"sample": 3.0, "sync": 5.0}
    step = recorded.span("rl.rank.step")
    first, sync, last = sorted(
        (span for span in recorded.spans if "rl.phase" in span.attributes), key=lambda span: span.start_time
    )
    for span in (first, sync, last):
        assert span.parent.span_id == step.context.span_id
    assert first.attributes["rl.suspended"] is True
    assert last.attributes["rl.active_duration"] == 3.0
    assert "rl.suspended" not in last.attributes
    assert "rl.active_duration" not in sync.attributes


def test_parts_of_a_suspended_phase_are_suspended_with_it(recorded, clock):
    with otel_rl.step(1), otel_rl.phase("sample"), otel_rl.phase("generate"):
        clock.passes(1)
        with otel_rl.phase("sync"), otel_rl.phase("weight_sync"):
            clock.passes(5)
        clock.passes(2)

    assert stretches(recorded) == [
        ("rl.sample", 0, 1),
        ("rl.generate", 0, 1),
        ("rl.sync", 1, 6),
        ("rl.weight_sync", 1, 6),
        ("rl.sample", 6, 8),
        ("rl.generate", 6, 8),
    ]
    names = {span.context.span_id: span.name for span in recorded.spans}
    parents = {span.name: names[span.parent.span_id] for span in recorded.spans if "rl.phase" in span.attributes}
    by_id = {span.context.span_id: span for span in recorded.spans}
    for span in recorded.spans:
        if span.name == "rl.generate":
            assert by_id[span.parent.span_id].start_time == span.start_time
    assert parents == {
        "rl.sample": "rl.rank.step",
        "rl.generate": "rl.sample",
        "rl.sync": "rl.rank.step",
        "rl.weight_sync": "rl.sync",
    }


def test_interruptions_nest(recorded, clock):
    with otel_rl.step(1), otel_rl.phase("train"):
        clock.passes(1)
        with otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("reward"):
                clock.passes(1)
            clock.passes(1)
        clock.passes(1)

    assert stretches(recorded) == [
        ("rl.train", 0, 1),
        ("rl.sample", 1, 2),
        ("rl.reward", 2, 3),
        ("rl.sample", 3, 4),
        ("rl.train", 4, 5),
    ]
    assert durations(recorded) == {"train": 2.0, "sample": 2.0, "reward": 1.0}


def test_what_an_evaluation_samples_is_inside_it(recorded, clock):
    with otel_rl.step(1), otel_rl.phase("train"):
        clock.passes(1)
        with otel_rl.phase("evaluate"):
            clock.passes(1)
            with otel_rl.phase("sample"):
                clock.passes(1)
        clock.passes(1)

    assert stretches(recorded) == [
        ("rl.train", 0, 1),
        ("rl.evaluate", 1, 3),
        ("rl.sample", 2, 3),
        ("rl.train", 3, 4),
    ]


def test_a_step_has_one_duration_per_phase(recorded, clock):
    with otel_rl.step(1):
        for _ in range(4):
            with otel_rl.phase("sample"):
                clock.passes(1)
    found = recorded.metrics()["rl.sample.duration"][0]

    assert (found.count, found.sum) == (1, 4.0)


def test_without_a_step_every_phase_has_its_duration(recorded, clock):
    for _ in range(2):
        with otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("sync"):
                clock.passes(2)
    found = recorded.metrics()["rl.sample.duration"][0]

    assert (found.count, found.sum) == (2, 2.0)


def test_a_phase_in_a_rollout_suspends_nothing_of_the_step(recorded, clock):
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.rollout(), otel_rl.phase("reward"):
            clock.passes(2)
        clock.passes(1)

    assert stretches(recorded) == [("rl.sample", 0, 4), ("rl.reward", 1, 3)]
    assert recorded.span("rl.reward").parent.span_id == recorded.span("rl.rollout").context.span_id
    assert durations(recorded)["sample"] == 4.0


def test_a_task_that_runs_beside_a_phase_does_not_suspend_it(recorded, clock):
    async def score():
        with otel_rl.phase("reward"):
            clock.passes(1)

    async def program():
        with otel_rl.step(1), otel_rl.phase("sample"):
            await asyncio.gather(score(), score())
            clock.passes(1)

    asyncio.run(program())

    assert [one for one in stretches(recorded) if one[0] == "rl.sample"] == [("rl.sample", 0, 3)]
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_thread_that_runs_beside_a_phase_does_not_suspend_it(recorded, clock):
    def score():
        with otel_rl.phase("reward"):
            clock.passes(1)

    with otel_rl.step(1), otel_rl.phase("sample"):
        thread = threading.Thread(target=score)
        thread.start()
        thread.join(30)

    assert ("rl.sample", 0, 1) in stretches(recorded)


def test_what_the_program_made_current_stays_current_after_an_interruption(recorded, clock):
    tracer = trace.get_tracer("program")
    with otel_rl.step(1), otel_rl.phase("sample"), tracer.start_as_current_span("own") as own:
        with otel_rl.phase("sync"):
            clock.passes(1)
        assert trace.get_current_span() is own
        with otel_rl.phase("reward"):
            clock.passes(1)
        assert trace.get_current_span() is own
    assert not trace.get_current_span().get_span_context().is_valid
    assert durations(recorded) == {"sample": 0.0, "sync": 1.0, "reward": 1.0}


def test_an_error_marks_the_last_stretch(recorded, clock):
    def program():
        with otel_rl.step(1), otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("sync"):
                clock.passes(1)
            clock.passes(1)
            raise LookupError

    with pytest.raises(LookupError):
        program()

    first, last = sorted((span for span in recorded.spans if span.name == "rl.sample"), key=lambda one: one.start_time)
    assert "error.type" not in first.attributes
    assert last.attributes["error.type"] == "LookupError"
    assert "error.type" not in recorded.span("rl.sync").attributes


def test_a_phase_that_is_left_before_the_one_inside_it_does_not_come_back(recorded, clock):
    steps.begin(1, _scope)
    outer = Phase(spans.RL_SAMPLE, _scope).start()
    inner = Phase(spans.RL_SYNC, _scope).start()
    clock.passes(1)
    outer.end()
    inner.end()
    steps.finish()

    assert not trace.get_current_span().get_span_context().is_valid
    assert [name for name, *_ in stretches(recorded)] == ["rl.sample", "rl.sync"]


def test_a_trainer_that_changes_phases_often_emits_few_spans_and_all_durations(recorded, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(100):
        with loop.phase(spans.RL_SAMPLE, _scope):
            clock.passes(1)
            with loop.phase(spans.RL_SYNC, _scope):
                clock.passes(2)
        with loop.phase(spans.RL_FORWARD, _scope):
            clock.passes(3)
    loop.finish_step()

    assert len(recorded.spans) <= 2 + 4 * PHASE_SPANS_PER_STEP
    assert durations(recorded) == {"sample": 100.0, "sync": 200.0, "train": 300.0, "phase": 300.0}


def test_a_weight_sync_inside_the_loss_suspends_training(recorded, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        clock.passes(1)
        with loop.phase(spans.RL_SYNC, _scope):
            clock.passes(2)
        clock.passes(1)
    loop.finish_step()

    assert durations(recorded) == {"train": 2.0, "sync": 2.0, "phase": 2.0}


def test_a_part_that_is_interrupted_has_a_span_for_each_stretch(recorded, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        clock.passes(1)
        with loop.phase(spans.RL_SYNC, _scope):
            clock.passes(2)
        clock.passes(1)
    loop.finish_step()

    first, second = sorted(
        (span for span in recorded.spans if span.name == "rl.forward"), key=lambda span: span.start_time
    )
    trains = sorted((span for span in recorded.spans if span.name == "rl.train"), key=lambda span: span.start_time)
    assert [first.parent.span_id, second.parent.span_id] == [train.context.span_id for train in trains]
    assert [(span.end_time - span.start_time) // SECOND for span in (first, second)] == [1, 1]
    assert first.attributes["rl.suspended"]
    assert (second.attributes["rl.active_duration"], "rl.suspended" in second.attributes) == (2.0, False)


def test_a_part_without_a_span_of_its_own_does_not_count_what_interrupts_it(recorded, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(SPANS_PER_STEP + 1):
        with loop.phase(spans.RL_FORWARD, _scope):
            clock.passes(1)
            with loop.phase(spans.RL_SYNC, _scope):
                clock.passes(2)
            clock.passes(1)
    loop.finish_step()

    assert durations(recorded)["phase"] == 2.0 * (SPANS_PER_STEP + 1)


def test_a_span_of_the_program_inside_a_part_is_a_child_of_the_phase_around_it(recorded):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with (
        loop.phase(spans.RL_FORWARD, _scope),
        trace.get_tracer("program").start_as_current_span("loss"),
        loop.phase(spans.RL_OPTIMIZER, _scope),
    ):
        pass
    loop.finish_step()

    train, loss = recorded.span("rl.train"), recorded.span("loss")
    assert recorded.span("rl.forward").parent.span_id == loss.parent.span_id == train.context.span_id
    assert recorded.span("rl.optimizer").parent.span_id == loss.context.span_id


def test_a_part_that_fails_has_a_span_even_where_it_is_one_too_many(recorded):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(SPANS_PER_STEP):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
    with pytest.raises(ExpectedError), loop.phase(spans.RL_FORWARD, _scope):
        raise ExpectedError
    loop.finish_step()

    found = [span for span in recorded.spans if span.name == "rl.forward"]
    assert [span.attributes.get("error.type") for span in found] == [
        *[None] * SPANS_PER_STEP,
        f"{__name__}.ExpectedError",
    ]


def test_a_thinned_rank_suspends_without_spans(recorded, clock, monkeypatch):
    monkeypatch.setattr(step_sampling, "has_its_turn", lambda *_: False)
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.phase("sync"):
            clock.passes(2)
        clock.passes(1)

    assert not [span for span in recorded.spans if "rl.phase" in span.attributes]
    assert durations(recorded) == {"sample": 2.0, "sync": 2.0}


def test_a_forked_child_neither_suspends_nor_ends_the_phases_of_its_parent(recorded):
    otel_rl.step(1).__enter__()
    with Phase(spans.RL_TRAIN, _scope):
        child = os.fork()
        if child == 0:
            inner = ["unknown"]
            try:
                lifecycle.run_after_fork_callbacks()
                deferral.release_child()
                with Phase(spans.RL_SAMPLE, _scope):
                    pass
                inner = [span.name for span in recorded.spans]
            finally:
                os._exit(0 if inner == ["rl.sample"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [span.name for span in recorded.spans] == ["rl.train"]


def test_a_forked_child_that_leaves_a_phase_of_its_parent_records_nothing(recorded):
    phase = Phase(spans.RL_TRAIN, _scope).start()
    child = os.fork()
    if child == 0:
        names = ["unknown"]
        try:
            lifecycle.run_after_fork_callbacks()
            deferral.release_child()
            phase.end()
            names = [span.name for span in recorded.spans]
        finally:
            os._exit(0 if names == [] and not trace.get_current_span().get_span_context().is_valid else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    phase.end()
    assert [span.name for span in recorded.spans] == ["rl.train"]
