"""Code that a garbage collection runs knows it, and only it; decorated generators are closed like plain ones."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from contextlib import nullcontext

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.api import collecting
from otel_rl.telemetry.context import attach, detach, unchanged
from otel_rl.training import phases

before_3_12 = pytest.mark.skipif(
    not collecting.INTERRUPTS, reason="a collection interrupts calls before Python 3.12 only"
)


@pytest.fixture
def watched(monkeypatch):
    before = list(gc.callbacks)
    monkeypatch.setattr(collecting, "_is_watched", False)
    collecting.watch()
    yield
    gc.callbacks[:] = before


class Cycle:
    def __init__(self, asked):
        self.me, self.asked = self, asked

    def __del__(self):
        self.asked.append(collecting.runs_here())
        other = threading.Thread(target=lambda: self.asked.append(collecting.runs_here()))
        other.start()
        other.join()


@before_3_12
@pytest.mark.usefixtures("watched")
def test_a_finaliser_that_a_collection_runs_knows_it_and_other_threads_are_told_no():
    asked = []
    Cycle(asked)
    assert not collecting.runs_here()
    gc.collect()
    assert asked == [True, False]
    assert not collecting.runs_here()


@before_3_12
@pytest.mark.usefixtures("watched")
def test_a_finaliser_without_a_collection_is_told_no():
    asked = []
    cycle = Cycle(asked)
    del cycle.me, cycle
    assert asked == [False, False]


@before_3_12
@pytest.mark.usefixtures("watched")
def test_the_callbacks_are_there_once():
    number = len(gc.callbacks)
    collecting.watch()
    assert len(gc.callbacks) == number


@before_3_12
@pytest.mark.usefixtures("watched")
def test_a_callback_that_removes_itself_before_ours_leaves_no_collection_open():
    def remove(phase, _):
        if phase == "stop":
            gc.callbacks.remove(remove)

    gc.callbacks.insert(gc.callbacks.index(collecting._CALLBACKS[0]), remove)
    gc.collect()
    assert not collecting.runs_here()


class Box:
    """Holds a generator, and itself: garbage that only a collection finds."""

    def __init__(self, generator):
        self.me, self.generator = self, generator


@pytest.mark.parametrize("inner", [nullcontext, lambda: otel_rl.tool("inner"), lambda: otel_rl.phase("sample")])
def test_a_generator_that_a_collection_closes_cleans_up_in_the_context_of_the_program(recorded, inner):
    variable, cleaned = contextvars.ContextVar("variable", default="unset"), []

    @otel_rl.tool("outer")
    def generator():
        token = variable.set("inside")
        try:
            with inner():
                yield 1
        finally:
            variable.reset(token)
            cleaned.append(1)

    box = Box(generator())
    next(box.generator)
    assert variable.get() == "inside"
    before = contextvars.copy_context()
    del box
    gc.collect()
    assert cleaned == [1]
    assert variable.get() == "unset"
    assert trace.get_current_span() is trace.INVALID_SPAN
    changed = {one for one in (*before, *contextvars.copy_context()) if before.get(one) is not one.get(None)}
    # From Python 3.12 on nothing is interrupted, and the phase restores what was there before it.
    may_change = {"variable"} if collecting.INTERRUPTS else {"variable", "otel_rl_phase"}
    assert {one.name for one in changed} <= may_change
    assert not phases.is_inside("sample")


def test_a_span_of_the_program_in_a_generator_that_a_collection_closes_leaves_none_current(recorded):
    @otel_rl.tool("outer")
    def generator():
        with trace.get_tracer("program").start_as_current_span("inner"):
            yield 1

    box = Box(generator())
    next(box.generator)
    del box
    gc.collect()
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_an_asynchronous_generator_in_a_cycle_is_closed_by_its_event_loop(recorded):
    cleaned = []

    @otel_rl.tool("outer")
    async def generator():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    box = Box(generator())
    await box.generator.asend(None)
    del box
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)
    assert cleaned == [1]


@before_3_12
def test_where_nothing_may_change_a_context_is_neither_attached_nor_detached():
    context = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False)))
    outer = attach(context)
    with unchanged():
        token = attach({})
        assert trace.get_current_span().get_span_context().trace_id == 1
        assert not detach(token)
        assert not detach(outer)
        elsewhere = []
        other = threading.Thread(target=lambda: elsewhere.append(detach(attach({}))))
        other.start()
        other.join()
    assert elsewhere == [True]
    assert detach(outer)
