"""Loops: several steps open at once, steps entered elsewhere, names."""

from __future__ import annotations

import asyncio
import os
import threading
from itertools import count

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
from otel_rl.training import steps
from otel_rl.training.trainer_loop import TrainerLoop, current

_scope = Scope("test")


@pytest.fixture(autouse=True)
def fresh_loops(monkeypatch):
    monkeypatch.setattr(steps, "_programs", [])
    monkeypatch.setattr(steps, "_named", {})
    monkeypatch.setattr(steps, "_numbers", count())
    token = steps._mine.set(None)
    yield
    steps._mine.reset(token)


def roots(recorded):
    found = [span for span in recorded.spans if span.name == "rl.loop"]
    return {span.attributes["rl.loop.iteration"]: span for span in found}


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_two_loops_have_a_step_open_at_once(recorded):
    with otel_rl.step(1):

        def second():
            with otel_rl.step(2), otel_rl.phase("sample"):
                pass

        in_thread(second)
        with otel_rl.phase("train"):
            pass

    assert recorded.span("rl.sample").context.trace_id == roots(recorded)[2].context.trace_id
    assert recorded.span("rl.train").context.trace_id == roots(recorded)[1].context.trace_id


def test_a_step_inside_a_step_adds_nothing(recorded):
    with otel_rl.step(1), otel_rl.step(2), otel_rl.phase("sample"):
        pass

    assert list(roots(recorded)) == [1]


def test_a_named_loop_has_its_steps_inside_of_other_steps_too(recorded):
    with otel_rl.step(1), otel_rl.step(5, loop="critic"), otel_rl.phase("train"):
        pass

    found = roots(recorded)
    assert list(found) == [5, 1]
    assert found[5].attributes["rl.loop.name"] == "critic"
    assert "rl.loop.name" not in found[1].attributes
    assert recorded.span("rl.train").context.trace_id == found[5].context.trace_id


def test_named_loops_have_the_same_traces_whatever_order_they_begin_in(recorded, monkeypatch):
    traces = []
    for order in (("actor", "critic"), ("critic", "actor")):
        monkeypatch.setattr(steps, "_named", {})
        recorded.clear()
        for name in order:
            with otel_rl.step(1, loop=name):
                pass
        found = [span for span in recorded.spans if span.name == "rl.loop"]
        traces.append({span.attributes["rl.loop.name"]: span.context.trace_id for span in found})

    assert traces[0] == traces[1]
    assert len(set(traces[0].values())) == 2


def test_a_step_entered_and_left_in_helper_tasks_holds_the_phases_of_the_caller(recorded):
    async def program():
        for iteration in (1, 2):
            step = otel_rl.step(iteration)

            async def enter(step=step):
                step.__enter__()

            async def leave(step=step):
                step.__exit__(None, None, None)

            await asyncio.create_task(enter())
            with otel_rl.phase("sample"):
                pass
            await asyncio.create_task(leave())

    asyncio.run(program())

    found = roots(recorded)
    sampled = {span.attributes["rl.loop.iteration"]: span for span in recorded.spans if span.name == "rl.sample"}
    assert sampled.keys() == found.keys() == {1, 2}
    for iteration, span in sampled.items():
        assert span.context.trace_id == found[iteration].context.trace_id


def test_a_step_entered_in_a_helper_thread_holds_the_phases_of_the_caller(recorded):
    for iteration in (1, 2):
        step = otel_rl.step(iteration)
        in_thread(step.__enter__)
        with otel_rl.phase("sample"):
            pass
        in_thread(lambda step=step: step.__exit__(None, None, None))

    found = roots(recorded)
    for span in recorded.spans:
        if span.name == "rl.sample":
            assert span.context.trace_id == found[span.attributes["rl.loop.iteration"]].context.trace_id
    assert len({span.context.trace_id for span in found.values()}) == 2


def test_a_thread_that_knows_an_earlier_step_finds_the_present_one(recorded):
    loop = steps.Loop()

    def program():
        loop.begin(1, _scope)
        in_thread(lambda: loop.begin(2, _scope))
        with otel_rl.phase("sample"):
            pass
        loop.finish()

    in_thread(program)

    assert recorded.span("rl.sample").context.trace_id == roots(recorded)[2].context.trace_id


def test_a_rollout_links_to_the_step_of_its_own_loop(recorded):
    with otel_rl.step(1):

        def second():
            with otel_rl.step(2, loop="second"), otel_rl.rollout():
                pass

        in_thread(second)

    steps_by_iteration = {
        span.attributes["rl.loop.iteration"]: span for span in recorded.spans if span.name == "rl.rank.step"
    }
    [link] = recorded.span("rl.rollout").links
    assert link.context.span_id == steps_by_iteration[2].context.span_id


def test_trainer_hooks_outside_of_train_find_no_step_of_another_loop(recorded):
    with otel_rl.step(1):
        loop = TrainerLoop().enter()
        try:
            assert current() is loop
            assert loop.open(spans.RL_FORWARD, _scope) is None
        finally:
            loop.leave()
        assert steps.where().step is steps.where().certain_step

    assert list(roots(recorded)) == [1]


def test_finishing_closes_every_open_step(recorded):
    opened = [steps.Loop() for _ in range(3)]
    for number, loop in enumerate(opened, 1):
        in_thread(lambda loop=loop, number=number: loop.begin(number, _scope))
    steps.finish()

    assert sorted(roots(recorded)) == [1, 2, 3]
    assert steps.where().step is None


def test_a_forked_child_has_no_open_step_of_any_loop(recorded):
    reading, writing = os.pipe()
    trainers = [TrainerLoop().enter(), TrainerLoop()]
    for loop in trainers:
        loop.begin_step(1, _scope)
    child = os.fork()
    if child == 0:
        steps._forget()
        os.write(writing, b"none" if steps.where().step is None else b"some")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 4) == b"none"
    trainers[1].finish_step()
    trainers[0].leave()
    assert not trace.get_current_span().get_span_context().is_valid


def test_two_threads_that_begin_a_step_of_one_loop_leave_it_open_once(recorded):
    loop, other = steps.Loop("critic"), []

    def begin_another(step):
        if step.iteration == 1:
            in_thread(lambda: other.append(loop.begin(2, _scope)))

    steps.openers.add(begin_another)
    try:
        loop.begin(1, _scope)
    finally:
        steps.openers.remove(begin_another)
    assert other
    assert steps._open == [loop]
    loop.finish()
    assert steps._open == []


def test_finishing_ends_whatever_an_interrupted_loop_has_left(recorded):
    # As a KeyboardInterrupt in the middle of `Loop.finish` leaves it.
    steps._open.append(steps.Loop())
    thread = threading.Thread(target=steps.finish, daemon=True)
    thread.start()
    thread.join(60)
    try:
        assert not thread.is_alive()
    finally:
        steps._open.clear()
