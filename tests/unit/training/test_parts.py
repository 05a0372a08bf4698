"""Parts of phases: forward and backward passes, which keep only their moments on the trainer's thread."""

from __future__ import annotations

import pytest
from opentelemetry import trace

from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
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
