"""Guard, run identity, ids, drops, correlation, tools."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import signal
import sys
import threading
from collections import Counter

import pytest
from carried_baggage import with_baggage
from opentelemetry import baggage, trace

from otel_rl.core.guard import error_counts
from otel_rl.process import process_identity
from otel_rl.semconv import metrics, spans
from otel_rl.telemetry import Scope, deferral, drops, guard, ids, lifecycle
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH
from otel_rl.telemetry.propagation import inject
from otel_rl.tools.calls import ToolCall

_scope = Scope("test")


def _broken():
    raise RuntimeError("ours")


def _in_with_block(site, code=_broken):
    with guard(site):
        code()


def _in_except_clause(site, code=_broken):
    try:
        code()
    except Exception as error:  # noqa: BLE001 - as our hot paths do
        guard(site).handle(error)


@pytest.mark.parametrize("fail", [_in_with_block, _in_except_clause])
def test_an_error_of_ours_is_swallowed_counted_and_logged_once_per_site(monkeypatch, caplog, fail):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    site = f"test.{fail.__name__}"
    with caplog.at_level(logging.WARNING, "otel_rl"):
        for _ in range(3):
            fail(site)
    assert error_counts()[site] == 3
    assert len([record for record in caplog.records if site in record.getMessage()]) == 1


@pytest.mark.parametrize("fail", [_in_with_block, _in_except_clause])
def test_under_our_tests_an_error_of_ours_surfaces(fail):
    with pytest.raises(RuntimeError):
        fail("test.raises")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_the_guard_lets_the_programs_own_interrupts_pass(monkeypatch, error):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    with pytest.raises(error), guard("test.interrupt"):
        raise error


class Timeouts:
    """Handlers of the program, in every form."""

    def method(self, *_):
        raise TimeoutError("the program's")

    __call__ = method

    @staticmethod
    def function(*_):
        raise TimeoutError("the program's")


@pytest.mark.parametrize("fail", [_in_with_block, _in_except_clause])
@pytest.mark.parametrize(
    "handler", [Timeouts().method, Timeouts.function, Timeouts(), functools.partial(Timeouts.function, 1)]
)
def test_what_a_signal_handler_raises_inside_our_code_reaches_the_program(monkeypatch, fail, handler):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError, match="the program's"):
            fail("test.signals", lambda: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "test.signals" not in error_counts()


def test_an_error_that_comes_again_and_again_runs_little_code_of_ours(monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    _in_except_clause("test.often")
    calls = Counter()
    sys.setprofile(lambda _, event, __: calls.update([event]))
    try:
        _in_except_clause("test.often")
    finally:
        sys.setprofile(None)
    # One per signal, of C, and hundreds of Python's where members of enumerations are made of what it gives.
    assert calls["call"] < 32


def test_a_log_handler_of_the_program_that_raises_does_not_bring_our_error_to_it(monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    class Strict(logging.Handler):
        def emit(self, record):
            raise AssertionError(record.getMessage())

    handler = Strict()
    logging.getLogger().addHandler(handler)
    try:
        with guard("test.strict"):
            raise RuntimeError("ours")
    finally:
        logging.getLogger().removeHandler(handler)
    assert error_counts()["test.strict"] == 1


def test_counting_a_drop_may_be_interrupted_by_another_drop_of_the_same_thread():
    class Interrupting(str):
        """Hashed while the counts are held, as a signal handler would run then."""

        __slots__ = ()

        def __hash__(self):
            drops.count("traces", "inner")
            return super().__hash__()

    before = drops.snapshot().get(("traces", "inner"), 0)
    counting = threading.Thread(target=drops.count, args=("traces", Interrupting("outer")), daemon=True)
    counting.start()
    counting.join(60)
    try:
        assert not counting.is_alive()
        assert drops.snapshot()["traces", "inner"] > before
    finally:
        drops.reset()


def test_ids_neither_draw_from_nor_follow_the_programs_random_numbers():
    generator = ids.IdGenerator()
    random.seed(42)
    state = random.getstate()
    first = generator.generate_trace_id(), generator.generate_span_id()
    assert random.getstate() == state
    random.seed(42)
    assert (generator.generate_trace_id(), generator.generate_span_id()) != first


def test_an_unknown_value_never_erases_a_known_one(monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(rank=3))
    seen = []
    monkeypatch.setattr(process_identity, "_listeners", [seen.append])
    process_identity.update(rank=None, system="trl")
    assert process_identity.current().rank == 3
    assert [identity.system for identity in seen] == ["trl"]


def test_a_misspelt_identity_field_is_an_error():
    with pytest.raises(TypeError, match="ranck"):
        process_identity.update(ranck=1)


def test_shutdown_callbacks_run_once_last_registered_first(monkeypatch):
    # Without this the process would count as ending in the tests that follow.
    monkeypatch.setattr(lifecycle, "before_shutdown", lifecycle.Callbacks("before_shutdown"))
    monkeypatch.setattr(lifecycle, "is_ending", False)
    order = []
    lifecycle.before_shutdown(lambda: order.append("first"))
    lifecycle.before_shutdown(lambda: order.append("second"))
    lifecycle.run_shutdown_callbacks()
    lifecycle.run_shutdown_callbacks()
    assert order == ["second", "first"]


def test_allowed_baggage_becomes_attributes_and_foreign_baggage_does_not(recorded):
    context = baggage.set_baggage("customer", "secret")
    with with_baggage({"rl.rollout.id": "r1", "rl.loop.iteration": 4, "other": "x"}):
        _scope.end_span(_scope.start_span(spans.RL_GENERATE))
    _scope.end_span(_scope.start_span(spans.RL_TRAIN, context=context))
    assert recorded.span("rl.generate").attributes["rl.rollout.id"] == "r1"
    assert recorded.span("rl.generate").attributes["rl.loop.iteration"] == 4
    assert "customer" not in recorded.span("rl.train").attributes


def test_headers_carry_trace_and_correlation(recorded):
    headers = {}
    with with_baggage({"rl.rollout.id": "r1"}):
        span = _scope.start_span(spans.RL_GENERATE)
    with with_baggage({"rl.rollout.id": "r1"}), trace.use_span(span):
        inject(headers, "localhost")
    assert f"{span.get_span_context().span_id:016x}" in headers["traceparent"]
    assert "rl.rollout.id=r1" in headers["baggage"]


def test_too_long_correlation_values_are_counted_and_sent_as_a_hash(recorded):
    before = drops.snapshot().get(("context", "baggage_value_too_long"), 0)
    headers = {}
    with with_baggage({"rl.rollout.id": "x" * 5000}):
        inject(headers, "localhost")
    assert headers["baggage"].startswith("rl.rollout.id=hash-")
    assert "xxx" not in headers["baggage"]
    assert drops.snapshot()["context", "baggage_value_too_long"] == before + 1


def test_long_strings_are_cut_with_a_marker_that_tells_their_length(recorded):
    _scope.end_span(_scope.start_span(spans.RL_GENERATE, attributes={"error.type": "x" * 20000}))
    value = recorded.span("rl.generate").attributes["error.type"]
    assert len(value) == MAXIMUM_LENGTH
    assert value.endswith("[truncated, 20000 characters]")


def test_non_finite_values_are_dropped_from_metrics_and_counted(recorded):
    before = drops.snapshot().get(("metrics", "non_finite"), 0)
    _scope.record(metrics.RL_ROLLOUT_DURATION, float("nan"))
    assert "rl.rollout.duration" not in recorded.metrics()
    assert drops.snapshot()["metrics", "non_finite"] == before + 1


def test_a_tool_span_that_somebody_else_opened_is_enriched_not_doubled(recorded):
    foreign = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
    with trace.get_tracer("foreign").start_as_current_span("execute_tool add", attributes=foreign):
        with ToolCall(_scope, "add") as call:
            call.fail("tool_error")
    assert recorded.span("execute_tool add").attributes["error.type"] == "tool_error"
    assert "gen_ai.execute_tool.duration" not in recorded.metrics()


def test_an_error_on_a_span_of_another_instrumentor_is_as_plain_as_on_ours(recorded):
    foreign = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
    with trace.get_tracer("foreign").start_as_current_span("execute_tool add", attributes=foreign):
        with ToolCall(_scope, "add") as call:
            call.fail("bad\ud83d")
    with ToolCall(_scope, "search") as call:
        call.fail("bad\ud83d")
    kinds = {span.attributes["error.type"] for span in recorded.spans}
    assert len(kinds) == 1
    assert kinds.pop().isprintable()


def test_a_tool_that_two_of_our_instrumentors_see_is_one_call(recorded):
    with ToolCall(Scope("langchain"), "add"), ToolCall(Scope("mcp"), "add"):
        pass
    assert [span.instrumentation_scope.name for span in recorded.spans] == ["otel_rl.langchain"]
    assert recorded.metrics()["gen_ai.execute_tool.duration"][0].count == 1


def test_a_tool_that_calls_itself_is_two_calls(recorded):
    with ToolCall(_scope, "search"), ToolCall(_scope, "search"):
        pass
    assert len(recorded.spans) == 2
    assert recorded.metrics()["gen_ai.execute_tool.duration"][0].count == 2


def test_a_nested_call_of_another_tool_gets_a_span_of_its_own(recorded):
    with ToolCall(_scope, "outer"), ToolCall(_scope, "inner"):
        pass
    assert recorded.span("execute_tool inner").parent.span_id == recorded.span("execute_tool outer").context.span_id


def test_of_many_values_recorded_together_one_has_an_exemplar_and_all_are_counted(recorded):
    before = drops.snapshot().get(("metrics", "non_finite"), 0)
    with trace.use_span(_scope.start_span(spans.RL_SAMPLE)) as span:
        _scope.record_all(metrics.RL_REWARD_SCORE, [1.0, 2.0, float("inf"), 4.0], {"rl.reward.name": "together"})

    [point] = [p for p in recorded.metrics()["rl.reward.score"] if p.attributes["rl.reward.name"] == "together"]
    assert (point.count, point.sum) == (3, 7.0)
    assert [exemplar.span_id for exemplar in point.exemplars] == [span.get_span_context().span_id]
    assert drops.snapshot()["metrics", "non_finite"] == before + 1


def test_values_recorded_together_while_the_thread_is_inside_the_sdk_wait(recorded, queued):
    with deferral.inside_sdk():
        _scope.record_all(metrics.RL_REWARD_SCORE, [1.0, 2.0], {"rl.reward.name": "waiting"})
        assert len(queued) == 1

    [point] = [p for p in recorded.metrics()["rl.reward.score"] if p.attributes["rl.reward.name"] == "waiting"]
    assert (point.count, point.sum) == (2, 3.0)
