"""What the pack asks the collector to keep: steps, forced rollouts, rollouts of whole steps, what was slow in a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from opentelemetry import baggage, context, trace

import otel_rl
from otel_rl.core import settings
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, ids, sampling
from otel_rl.training import steps
from otel_rl.training.phases import Phase

PRIORITY, REASON = "rl.sampling.priority", "rl.sampling.reason"
_scope = Scope("test")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(sampling, "_durations", {})
    monkeypatch.setattr(sampling, "_traces", {})
    monkeypatch.setattr(steps, "_programs", [])
    monkeypatch.setattr(steps, "_numbers", count())
    monkeypatch.setattr(
        process_identity, "_current", process_identity.ProcessIdentity(id="run-1", rank=0, steps_key="run-1/0.0.0")
    )


@pytest.fixture
def whole_steps(monkeypatch):
    def every(interval):
        monkeypatch.setattr(settings, "_current", settings.Settings(whole_steps=interval))

    return every


def wishes(recorded):
    return {span.name: span.attributes.get(PRIORITY) for span in recorded.spans}


def warm_up(kind, name="", seconds=0.1):
    for _ in range(sampling.WARM_UP):
        sampling.keep_if_slow(trace.INVALID_SPAN, seconds, kind, name)


def test_every_span_of_a_step_trace_asks_to_be_kept(recorded):
    steps.begin(3, _scope)
    with Phase(spans.RL_SAMPLE, _scope), otel_rl.tool("search"):
        trace.get_tracer("somebody else").start_span("chat").end()
    steps.finish()
    assert set(wishes(recorded)) == {"rl.loop", "rl.rank.step", "rl.sample", "execute_tool search", "chat"}
    assert set(wishes(recorded).values()) == {1}


def test_a_rollout_inside_a_step_does_not_inherit_the_wish_of_the_step(recorded, whole_steps):
    whole_steps(0)
    steps.begin(3, _scope)
    with otel_rl.rollout("r"), otel_rl.tool("search"):
        pass
    steps.finish()
    assert wishes(recorded)["rl.rollout"] is wishes(recorded)["execute_tool search"] is None


def test_a_forced_rollout_asks_on_every_span_and_on_the_wire(recorded):
    with otel_rl.rollout("r", keep=True), otel_rl.tool("search"):
        trace.get_tracer("somebody else").start_span("chat").end()
        assert baggage.get_baggage(PRIORITY) == "1"
    assert wishes(recorded) == {"rl.rollout": 1, "execute_tool search": 1, "chat": 1}
    assert recorded.span("rl.rollout").attributes[REASON] == "forced"


def test_baggage_of_the_program_forces_the_spans_below_it(recorded):
    token = context.attach(baggage.set_baggage(PRIORITY, "1"))
    try:
        with otel_rl.tool("search"):
            pass
    finally:
        context.detach(token)
    assert wishes(recorded) == {"execute_tool search": 1}


@pytest.mark.parametrize(("interval", "iteration", "expected"), [(10, 20, 1), (10, 21, None), (0, 20, None)])
def test_all_rollouts_of_every_nth_iteration_are_kept(recorded, whole_steps, interval, iteration, expected):
    whole_steps(interval)
    with otel_rl.rollout("r", iteration=iteration), otel_rl.tool("search"):
        pass
    assert wishes(recorded) == {"rl.rollout": expected, "execute_tool search": expected}
    assert recorded.span("rl.rollout").attributes.get(REASON) == ("whole_step" if expected else None)


def test_nothing_is_slow_before_the_run_is_known():
    durations = sampling.Durations()
    assert not any(durations.is_slow(10.0**number) for number in range(sampling.WARM_UP))
    assert durations.is_slow(1e40)


def test_slow_is_relative_to_the_latest_of_this_run_and_what_is_remembered_is_bounded():
    durations = sampling.Durations()
    fast = [durations.is_slow(1.0 + number % 10 / 100) for number in range(1000)]
    assert not any(fast)
    assert durations.is_slow(2.0)
    shifted = [durations.is_slow(2.0) for _ in range(200)]
    assert not any(shifted[20:])
    assert durations.is_slow(4.0)
    assert len(durations._sorted) == len(durations._latest) == sampling.REMEMBERED
    assert durations._sorted == sorted(durations._latest)


def test_a_slow_tool_call_marks_itself_and_what_ends_or_starts_later_in_its_trace(recorded):
    warm_up("execute_tool", "search", seconds=1e-9)
    with otel_rl.rollout("r"):
        with otel_rl.tool("other"):
            pass
        with otel_rl.tool("search"):
            pass
        trace.get_tracer("somebody else").start_span("chat").end()
    with otel_rl.rollout("unrelated"):
        pass
    marked = {span.name for span in recorded.spans if PRIORITY in span.attributes}
    assert marked == {"execute_tool search", "chat", "rl.rollout"}
    slow = recorded.span("execute_tool search")
    assert slow.attributes[REASON] == "slow"
    assert [span.context.trace_id for span in recorded.spans if PRIORITY in span.attributes] == [
        slow.context.trace_id
    ] * 3


def test_a_tool_is_compared_with_calls_of_the_same_tool(recorded):
    warm_up("execute_tool", "quick", seconds=1e-9)
    with otel_rl.tool("search"):
        pass
    assert wishes(recorded) == {"execute_tool search": None}


def test_a_slow_rollout_says_so_on_its_root(recorded):
    warm_up(spans.RL_ROLLOUT.type, seconds=1e-9)
    with otel_rl.rollout("r"):
        pass
    assert recorded.span("rl.rollout").attributes[REASON] == "slow"


def test_a_slow_step_says_so_on_the_span_of_its_rank(recorded):
    warm_up(spans.RL_RANK_STEP.type, seconds=1e-9)
    steps.begin(3, _scope)
    steps.finish()
    assert recorded.span("rl.rank.step").attributes[REASON] == "slow"


def test_the_marks_of_traces_are_bounded(recorded):
    tracer = trace.get_tracer("test")
    for _ in range(sampling.MAXIMUM_TRACES + 10):
        sampling.keep(tracer.start_span("slow"))
    assert len(sampling._traces) == sampling.MAXIMUM_TRACES


def test_a_defect_in_the_search_for_slow_operations_ends_the_span_all_the_same(recorded, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS", raising=False)

    def fails(*_):
        raise ValueError("defect")

    monkeypatch.setattr(sampling.Durations, "is_slow", fails)
    with otel_rl.rollout("r"), otel_rl.tool("search"):
        pass
    assert set(wishes(recorded)) == {"rl.rollout", "execute_tool search"}
    assert not trace.get_current_span().get_span_context().is_valid


def test_threads_that_find_slow_operations_at_once_do_not_disturb_each_other(recorded):
    tracer = trace.get_tracer("test")

    def find(_):
        for _ in range(500):
            sampling.keep(tracer.start_span("slow"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(find, range(8)))
    assert len(sampling._traces) == sampling.MAXIMUM_TRACES


def test_log_records_do_not_carry_the_wish(recorded):
    with otel_rl.rollout("r", keep=True):
        otel_rl.event("my_team.note")
    (event,) = recorded.events("my_team.note")
    assert event.attributes["rl.rollout.id"] == "r"
    assert PRIORITY not in event.attributes


@pytest.mark.parametrize(("scores", "expected"), [((), None), ((0.0,), 0.0), ((0.5, 1.0, float("nan")), 1.5)])
def test_the_root_of_a_rollout_tells_its_reward(recorded, scores, expected):
    with otel_rl.rollout("r"), otel_rl.tool("judge"):
        for number, score in enumerate(scores):
            otel_rl.reward(f"function {number}", score)
    assert recorded.span("rl.rollout").attributes.get("rl.rollout.reward") == expected


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_derived_ids_of_steps_are_random_enough_for_a_share_by_trace_id(share):
    # The last 56 bits are the randomness of W3C trace context level 2.
    randomness = [ids.derive("run-1", 0, iteration).trace_id % (1 << 56) for iteration in range(10_000)]
    kept = sum(each >= (1 - share) * (1 << 56) for each in randomness)
    assert abs(kept - share * 10_000) < 200


def test_an_operation_that_ends_in_a_signal_handler_during_a_comparison_is_not_compared(recorded, monkeypatch):
    compared = []

    def is_slow(durations, duration):
        compared.append(duration)
        if duration == 1.0:  # the handler interrupts here, on the same thread
            sampling.keep_if_slow(trace.INVALID_SPAN, 2.0, "kind")
        return False

    monkeypatch.setattr(sampling.Durations, "is_slow", is_slow)
    sampling.keep_if_slow(trace.INVALID_SPAN, 1.0, "kind")
    sampling.keep_if_slow(trace.INVALID_SPAN, 3.0, "kind")
    assert compared == [1.0, 3.0]
