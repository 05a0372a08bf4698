"""Of the rollouts of a step the spans of a stated number leave, with every failed, suspect and slowest one."""

from __future__ import annotations

import contextvars
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.core import settings
from otel_rl.pipeline.processors import QueueSpanProcessor
from otel_rl.telemetry import drops, held_traces, lifecycle, sampling
from otel_rl.training import trajectories

#: What rollouts measure their duration by.
clock = SimpleNamespace(now=0.0)


@pytest.fixture(scope="module")
def queue(pipeline):
    """A queue behind the processor that stands in front of all of them."""
    del pipeline
    spans = []
    queue = SimpleNamespace(emit=spans.append, force_flush=lambda _: True, spans=spans)
    trace.get_tracer_provider().add_span_processor(QueueSpanProcessor(queue))
    return queue


@pytest.fixture
def sent(recorded, queue, monkeypatch):
    """Gives the spans that reach a queue, of a process that sends those of two rollouts per step."""
    del recorded
    spans = queue.spans
    spans.clear()
    monkeypatch.setenv("OTEL_RL_ROLLOUT_SPANS", "2")
    settings.reset()
    monkeypatch.setattr("otel_rl.api.rollouts.time", SimpleNamespace(perf_counter=lambda: clock.now))
    trajectories._forget()
    held_traces.forget()
    sampling._forget()
    drops.reset()
    yield spans
    held_traces.forget()
    sampling._forget()
    trajectories._forget()
    monkeypatch.undo()
    settings.reset()


def rollouts(spans):
    """Ids of the rollouts whose own span left, in order."""
    return [span.attributes["rl.rollout.id"] for span in spans if span.name == "rl.rollout"]


def unmarked(spans, name="rl.rollout"):
    """Ids of the rollouts of the spans with this name that are not marked as beyond the number."""
    return [
        span.attributes["rl.rollout.id"]
        for span in spans
        if span.name == name and span.attributes.get("rl.sampling.beyond_limit") != 1
    ]


def left_out():
    return drops.snapshot().get(("traces", "rollout_spans"), 0)


def collect(identifier, *, fails=False, tool_fails=False, reward=None, keep=False, seconds=0.0):
    """One rollout with a tool call, that takes so long by its clock."""
    with suppress(ZeroDivisionError), otel_rl.rollout(identifier, keep=keep) as it:
        clock.now += seconds
        with otel_rl.tool("search") as call:
            if tool_fails:
                call.fail("timeout")
        if reward is not None:
            otel_rl.reward("exact", reward)
        if fails:
            _ = 1 / 0
    return it


@pytest.fixture
def few_slowest(monkeypatch):
    monkeypatch.setattr(held_traces, "SLOWEST", 1)


def test_the_first_rollouts_of_a_step_leave_at_once_and_all_have_rows(sent, recorded):
    with otel_rl.step(1):
        for number in range(40):
            collect(f"r-{number}", seconds=40 - number)
            if number < 2:
                assert rollouts(sent) == [f"r-{each}" for each in range(number + 1)]
        assert rollouts(sent) == ["r-0", "r-1"]
    trajectories.record()
    assert rollouts(sent) == [f"r-{number}" for number in range(2 + held_traces.SLOWEST)]
    rows = [row for record in recorded.events("rl.trajectories") for row in record.body["rl.rollout.id"]]
    assert rows == [f"r-{number}" for number in range(40)]
    # The rollout and its tool, of each that was left out.
    assert left_out() == 2 * (40 - 2 - held_traces.SLOWEST)


@pytest.mark.usefixtures("few_slowest")
def test_failed_ones_and_those_that_the_program_wants_are_sent_whole(sent):
    with otel_rl.step(1):
        for number in range(10):
            collect(f"r-{number}", fails=number == 5, keep=number == 7, seconds=10 - number)
        assert rollouts(sent) == ["r-0", "r-1", "r-5", "r-7"]
    of_traces = Counter(span.context.trace_id for span in sent if span.name in ("rl.rollout", "execute_tool search"))
    assert set(of_traces.values()) == {2}


@pytest.mark.usefixtures("few_slowest")
def test_a_rollout_whose_reward_turns_out_suspect_is_sent_at_the_end_of_its_step(sent):
    with otel_rl.step(1):
        for number in range(4):
            collect(f"r-{number}", reward=1.0, seconds=4 - number)
        harmed = collect("harmed", tool_fails=True)
        unharmed = collect("unharmed", tool_fails=True)
        assert rollouts(sent) == ["r-0", "r-1"]
        harmed.reward("exact", 0.0)
        unharmed.reward("exact", 1.0)
    assert rollouts(sent) == ["r-0", "r-1", "harmed", "r-2"]


@pytest.mark.usefixtures("few_slowest")
def test_each_step_has_a_number_of_its_own(sent):
    for iteration in (1, 2):
        with otel_rl.step(iteration):
            for number in range(5):
                collect(f"{iteration}-{number}", seconds=5 - number)
    assert rollouts(sent) == ["1-0", "1-1", "1-2", "2-0", "2-1", "2-2"]


@pytest.mark.usefixtures("few_slowest")
def test_outside_of_steps_a_minute_counts_like_a_step(sent, monkeypatch):
    for number in range(5):
        collect(f"r-{number}", seconds=5 - number)
    assert rollouts(sent) == ["r-0", "r-1"]
    monkeypatch.setattr(held_traces, "WINDOW_SECONDS", -1.0)
    held_traces.close_due()
    assert rollouts(sent) == ["r-0", "r-1", "r-2"]


def test_outside_of_steps_the_later_ones_are_spread_over_the_minute(sent, monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(held_traces, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    for number in range(60):
        collect(f"r-{number}")
        now.seconds += 2
    # At first two at once, then one in 30 s.
    assert rollouts(sent)[:2] == ["r-0", "r-1"]
    assert [int(name[2:]) for name in unmarked(sent)[2:]] == pytest.approx([15, 30, 45], abs=1)


def test_every_span_of_a_rollout_beyond_the_number_says_so_and_no_other(sent):
    with otel_rl.step(1):
        for number in range(5):
            collect(f"r-{number}", seconds=number, keep=number == 3)
    with otel_rl.step(2):
        collect("next")
    assert unmarked(sent) == ["r-0", "r-1", "next"]
    assert unmarked(sent, "execute_tool search") == ["r-0", "r-1", "next"]
    assert len(rollouts(sent)) == 6


def test_a_rollout_inside_of_one_beyond_the_number_is_counted_for_itself(sent):
    with otel_rl.step(1):
        for number in range(2):
            collect(f"r-{number}")
        with otel_rl.rollout("outer"), otel_rl.rollout("inner", iteration=7):
            pass
    assert unmarked(sent) == ["r-0", "r-1", "inner"]


def test_what_is_held_leaves_with_a_flush_and_an_open_rollout_goes_on_without_being_held(sent):
    with otel_rl.step(1):
        for number in range(4):
            collect(f"r-{number}")
        with otel_rl.rollout("open"):
            with otel_rl.tool("search"):
                pass
            lifecycle.run_flush_callbacks()
            assert rollouts(sent) == ["r-0", "r-1", "r-2", "r-3"]
            assert sum(span.name == "execute_tool search" for span in sent) == 5
        assert rollouts(sent)[-1] == "open"
    assert left_out() == 0


def test_a_span_that_ends_after_its_left_out_rollout_is_left_out_too(sent, monkeypatch):
    monkeypatch.setattr(held_traces, "SLOWEST", 0)
    monkeypatch.setattr(held_traces, "_compare", lambda held, _: held_traces._leave_out(held))
    with otel_rl.step(1):
        for number in range(2):
            collect(f"r-{number}")
        with otel_rl.rollout("late"):
            inside = contextvars.copy_context()
            late = otel_rl.span("verify")
            inside.run(late.__enter__)
        before = left_out()
        inside.run(late.__exit__, None, None, None)
    assert "late" not in rollouts(sent)
    assert left_out() == before + 1
    assert not any(span.name == "verify" for span in sent)


def test_a_full_hold_gives_up_what_is_least_worth_and_counts_it(sent, monkeypatch):
    monkeypatch.setattr(held_traces, "MAXIMUM_BYTES", 40 * held_traces.SPAN_BYTES)
    with otel_rl.step(1):
        for number in range(2):
            collect(f"r-{number}")
        with otel_rl.rollout("open"):
            for _ in range(200):
                with otel_rl.tool("search"):
                    pass
                assert held_traces._bytes <= held_traces.MAXIMUM_BYTES
            assert left_out() >= 160
            clock.now += 10
    assert "open" in rollouts(sent)
    searches = sum(span.name == "execute_tool search" for span in sent)
    assert searches + left_out() == 202


def test_rollouts_that_outlast_their_step_are_sent_where_they_are_slower_than_those_that_were(sent):
    started = []
    with otel_rl.step(1):
        for number in range(2 + held_traces.SLOWEST):
            collect(f"r-{number}", seconds=5)
        for number in range(30):
            inside, late = contextvars.copy_context(), otel_rl.rollout(f"late-{number}")
            inside.run(late.__enter__)
            started.append((inside, late))
    clock.now += 10
    for inside, late in started:
        inside.run(late.__exit__, None, None, None)
    assert len([name for name in rollouts(sent) if name.startswith("late")]) == held_traces.SLOWEST


def test_the_memory_of_steps_is_bounded(sent):
    for iteration in range(50):
        for number in range(4):
            with otel_rl.rollout(f"{iteration}-{number}", iteration=iteration):
                pass
    assert len(held_traces._windows) <= held_traces.MAXIMUM_WINDOWS
    assert len(held_traces._held) <= held_traces.MAXIMUM_WINDOWS * held_traces.SLOWEST


def test_scores_beyond_are_in_the_rows_and_have_no_event_unless_they_say_more(sent, recorded):
    with otel_rl.step(1):
        for number in range(5):
            with otel_rl.rollout(f"r-{number}"):
                otel_rl.reward("exact", 1.0, explanation="why" if number == 4 else None)
    trajectories.record()
    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.reward.scores"] == [[1.0] * 5]
    scored = [event.attributes["rl.rollout.id"] for event in recorded.events("gen_ai.evaluation.result")]
    assert scored == ["r-0", "r-1", "r-4"]
    assert drops.snapshot()["logs", "rollout_spans"] == 2
