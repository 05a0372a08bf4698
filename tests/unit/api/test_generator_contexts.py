"""What decorated generators and generators with phases leave behind in the code that consumes them."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest
from opentelemetry import context, trace

import otel_rl
from otel_rl.telemetry import deferral


def current_id():
    return trace.get_current_span().get_span_context().span_id


@otel_rl.phase("sample")
def phase_of_pieces():
    yield 1
    yield 2


@otel_rl.rollout()
def rollout_of_pieces():
    yield 1
    yield 2


@otel_rl.tool("search")
def tool_of_pieces():
    yield 1
    yield 2


@pytest.mark.parametrize("generator", [phase_of_pieces, rollout_of_pieces, tool_of_pieces])
@pytest.mark.parametrize("ends", ["by itself", "early"])
def test_a_generator_that_ends_leaves_the_consumers_span_current(recorded, generator, ends):
    pieces = generator()
    next(pieces)
    with trace.get_tracer("program").start_as_current_span("consumer") as consumer:
        own = consumer.get_span_context().span_id
        if ends == "early":
            pieces.close()
        else:
            assert list(pieces) == [2]
        assert current_id() == own
    assert not current_id()


def test_the_consumers_phase_goes_on_between_the_pieces_of_a_generator(recorded):
    with otel_rl.step(1), otel_rl.phase("train"):
        pieces = phase_of_pieces()
        next(pieces)
        between = current_id()
        pieces.close()
        assert current_id() == between
    train = recorded.span("rl.train")
    assert train.context.span_id == between
    assert "rl.suspended" not in train.attributes
    assert recorded.span("rl.sample").parent.span_id == between


def phase_written_by_hand():
    with otel_rl.phase("sample"):
        yield 1
        yield 2


@pytest.mark.parametrize("generator", [phase_of_pieces, phase_written_by_hand])
def test_a_generator_closed_early_changes_nothing_in_the_io_thread(recorded, io_thread, generator):
    seen = []

    def look():
        seen.append((context.get_value("suppress_instrumentation"), current_id()))
        return True

    with otel_rl.step(1), otel_rl.phase("train"):
        pieces = generator()
        next(pieces)
        pieces.close()
        for _ in range(2):  # the first one records what the end of the phase has left
            assert io_thread.post(look, time.monotonic() + 60).wait()
    assert seen == [(True, 0), (True, 0)]


def test_the_phase_that_a_generator_has_suspended_goes_on_when_it_is_closed(recorded):
    with otel_rl.step(1), otel_rl.phase("train"):
        pieces = phase_written_by_hand()
        next(pieces)
        pieces.close()
        resumed = current_id()
    deferral.drain()
    first, last = sorted((span for span in recorded.spans if span.name == "rl.train"), key=lambda span: span.start_time)
    assert first.attributes["rl.suspended"]
    assert last.context.span_id == resumed
    assert "rl.active_duration" in last.attributes


def test_a_phase_that_ends_in_another_thread_makes_nothing_current_there(recorded):
    with otel_rl.step(1), otel_rl.phase("train"):
        inner = otel_rl.phase("sample")
        inner.__enter__()
        seen = []

        def end():
            inner.__exit__(None, None, None)
            seen.append((current_id(), context.get_current()))

        thread = threading.Thread(target=lambda: contextvars.Context().run(end))
        thread.start()
        thread.join()
        assert seen == [(0, {})]
    assert "rl.active_duration" in [span for span in recorded.spans if span.name == "rl.train"][-1].attributes
