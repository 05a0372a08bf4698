"""Parts of phases: forward and backward passes, which keep only their moments on the trainer's thread."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque

import pytest
from opentelemetry import trace

from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, deferral, drops
from otel_rl.training import step_sampling
from otel_rl.training.durations import DURATIONS_KEPT
from otel_rl.training.parts import Part
from otel_rl.training.phases import Phase
from otel_rl.training.trainer_loop import SPANS_PER_STEP, TrainerLoop

_scope = Scope("test")
SECOND = 1_000_000_000


class ExpectedError(Exception):
    """Raised by the tests."""


def test_a_part_that_is_interrupted_has_a_span_for_each_stretch(recordings, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        clock.passes(1)
        with loop.phase(spans.RL_SYNC, _scope):
            clock.passes(2)
        clock.passes(1)
    loop.finish_step()

    first, second = sorted(
        (span for span in recordings.spans if span.name == "rl.forward"), key=lambda span: span.start_time
    )
    trains = sorted((span for span in recordings.spans if span.name == "rl.train"), key=lambda span: span.start_time)
    assert [first.parent.span_id, second.parent.span_id] == [train.context.span_id for train in trains]
    assert [(span.end_time - span.start_time) // SECOND for span in (first, second)] == [1, 1]
    assert first.attributes["rl.suspended"]
    assert (second.attributes["rl.active_duration"], "rl.suspended" in second.attributes) == (2.0, False)


def test_a_part_without_a_span_of_its_own_does_not_count_what_interrupts_it(recordings, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(SPANS_PER_STEP + 1):
        with loop.phase(spans.RL_FORWARD, _scope):
            clock.passes(1)
            with loop.phase(spans.RL_SYNC, _scope):
                clock.passes(2)
            clock.passes(1)
    loop.finish_step()

    [[phase]] = [recordings.metrics()["rl.phase.duration"]]
    assert phase.sum == 2.0 * (SPANS_PER_STEP + 1)


def test_a_span_of_the_program_inside_a_part_is_a_child_of_the_phase_around_it(recordings):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with (
        loop.phase(spans.RL_FORWARD, _scope),
        trace.get_tracer("program").start_as_current_span("loss"),
        loop.phase(spans.RL_OPTIMIZER, _scope),
    ):
        pass
    loop.finish_step()

    train, loss = recordings.span("rl.train"), recordings.span("loss")
    assert recordings.span("rl.forward").parent.span_id == loss.parent.span_id == train.context.span_id
    assert recordings.span("rl.optimizer").parent.span_id == loss.context.span_id


def test_spans_of_parts_are_recorded_while_their_step_is_open(recordings):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for number in range(1, SPANS_PER_STEP + 1):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
        assert sum(span.name == "rl.forward" for span in recordings.spans) == number


def test_a_part_lies_where_the_wall_clock_says_although_it_is_set_during_the_step(recordings, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    clock.passes(1)
    clock.set_forward(3600)
    with loop.phase(spans.RL_FORWARD, _scope):
        clock.passes(2)
    loop.finish_step()

    forward, train = recordings.span("rl.forward"), recordings.span("rl.train")
    assert (forward.start_time, forward.end_time) == (train.start_time, train.end_time)


def test_a_part_that_fails_has_a_span_even_where_it_is_one_too_many(recordings):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(SPANS_PER_STEP):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
    with pytest.raises(ExpectedError), loop.phase(spans.RL_FORWARD, _scope):
        raise ExpectedError
    loop.finish_step()

    found = [span for span in recordings.spans if span.name == "rl.forward"]
    assert [span.attributes.get("error.type") for span in found] == [
        *[None] * SPANS_PER_STEP,
        f"{__name__}.ExpectedError",
    ]


def test_two_threads_that_post_at_once_lose_no_span(idle_io_thread, monkeypatch):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    step, posted = loop.step, []

    class Recordings(deque):
        """Another thread's recording arrives between the two lines of a post."""

        def append(self, recording):
            super().append(recording)
            if len(posted) == 1:
                posted.append("other thread")
                step.post(lambda: posted.append("second"))

    monkeypatch.setattr(step, "_recordings", Recordings())
    posted.append("first thread")
    step.post(lambda: posted.append("first"))
    deferral.drain_all()
    step.post(lambda: posted.append("third"))
    deferral.drain_all()

    assert {"first", "second", "third"} <= set(posted)
    loop.finish_step()


def test_a_post_that_the_program_interrupts_is_recorded_when_the_step_ends(idle_io_thread, monkeypatch):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    found = []
    with monkeypatch.context() as patched:
        patched.setattr(deferral, "post", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            loop.step.post(lambda: found.append(1))
    loop.step.post(lambda: found.append(2))
    loop.finish_step()
    deferral.drain_all()
    assert found == [1, 2]


def _interrupt(*_):
    raise KeyboardInterrupt


def test_a_part_in_a_copy_of_the_context_of_an_earlier_step_belongs_to_the_step_that_is_open(recordings):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        saved = contextvars.copy_context()
    loop.begin_step(2, _scope)
    second = loop.step.trace_id
    opened = saved.run(loop.open, spans.RL_LOG_PROBS, _scope)
    opened.end()
    loop.leave()

    assert recordings.span("rl.log_probs").context.trace_id == second


def test_a_part_in_another_thread_is_not_suspended_with_the_phase_of_this_one(recordings, clock):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_SAMPLE, _scope):
        copy, opened = contextvars.copy_context(), []
        thread = threading.Thread(target=lambda: copy.run(lambda: opened.append(loop.open(spans.RL_LOG_PROBS, _scope))))
        thread.start()
        thread.join()
        with Phase(spans.RL_SYNC, _scope):
            clock.passes(3)
        opened[0].end()
    loop.leave()

    [span] = [span for span in recordings.spans if span.name == "rl.log_probs"]
    assert (span.end_time - span.start_time) // SECOND == 3


def test_a_rank_whose_turn_it_is_not_emits_no_spans_of_parts(recordings, monkeypatch):
    monkeypatch.setattr(step_sampling, "has_its_turn", lambda *_: False)
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(2):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
    with pytest.raises(ExpectedError), loop.phase(spans.RL_BACKWARD, _scope):
        raise ExpectedError
    loop.finish_step()

    assert [span.name for span in recordings.spans if span.name in ("rl.forward", "rl.backward")] == ["rl.backward"]
    assert drops.snapshot()["traces", step_sampling.RANK_TURN] >= 2


def test_a_phase_does_not_hold_its_parts_that_have_ended(recordings):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    with Phase(spans.RL_TRAIN, _scope) as train:
        part = Part(spans.RL_FORWARD, _scope, loop.step, has_span=True)
        assert train.parts == [part]
        part.close()
        assert train.parts == []
    loop.leave()


def test_a_part_without_a_span_that_fails_has_one_below_the_span_that_is_current(recordings):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    for _ in range(SPANS_PER_STEP):
        with loop.phase(spans.RL_BACKWARD, _scope):
            pass
    with trace.get_tracer("program").start_as_current_span("mine") as mine:
        with pytest.raises(ExpectedError), loop.phase(spans.RL_BACKWARD, _scope):
            raise ExpectedError
    loop.leave()

    [failed] = [span for span in recordings.spans if span.attributes.get("error.type") == "test_parts.ExpectedError"]
    assert failed.parent.span_id == mine.get_span_context().span_id


def test_durations_of_a_long_step_are_recorded_before_it_ends(recordings):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(DURATIONS_KEPT):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
    [point] = recordings.metrics()["rl.phase.duration"]
    assert point.count == DURATIONS_KEPT
    loop.finish_step()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_ends_neither_part_nor_step_of_its_parent_although_nobody_follows_forks(recorded):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    opened = loop.open(spans.RL_FORWARD, _scope)
    before = len(recorded.spans)
    child = os.fork()
    if not child:
        try:
            opened.end()
            loop.leave()
            os._exit(len(recorded.spans) - before)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    opened.end()
    loop.leave()
    assert {"rl.forward", "rl.rank.step"} <= {span.name for span in recorded.spans}
