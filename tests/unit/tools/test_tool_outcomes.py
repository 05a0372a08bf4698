"""``rl.tool.outcome`` of ``otel_rl.tool``: one set of words, whatever the tool is and however it failed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import subprocess
import sys

import anyio
import httpx
import pytest
import requests
from pydantic import BaseModel, validate_call

import otel_rl
from otel_rl.telemetry import Scope
from otel_rl.tools import open_tools, outcomes
from otel_rl.tools.calls import ToolCall

OUTCOME, KIND, EXIT_CODE = "rl.tool.outcome", "error.type", "process.exit.code"


class Arguments(BaseModel):
    n: int


def _raises(error):
    def tool():
        raise error

    return tool


def _parses_in_its_body():
    return Arguments(n="many")


def _binds_in_its_body():
    return _parses_in_its_body(1)


def _runs(code, **options):
    return subprocess.run([sys.executable, "-c", code], check=True, **options)


def _ended(recorded, name="work"):
    (span,) = [span for span in recorded.spans if span.name == f"execute_tool {name}"]
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    found = span.attributes[OUTCOME], span.attributes.get(KIND)
    assert (point.attributes[OUTCOME], point.attributes.get(KIND)) == found
    return found


FAILURES = [
    (_raises(TimeoutError()), "timeout", "TimeoutError"),
    (_raises(asyncio.TimeoutError()), "timeout", None),
    (_raises(concurrent.futures.TimeoutError()), "timeout", None),
    (_raises(multiprocessing.TimeoutError()), "timeout", "multiprocessing.context.TimeoutError"),
    (_raises(httpx.ReadTimeout("late")), "timeout", "httpx.ReadTimeout"),
    (_raises(requests.ConnectTimeout()), "timeout", "requests.exceptions.ConnectTimeout"),
    (_raises(subprocess.TimeoutExpired("python", 1)), "timeout", "subprocess.TimeoutExpired"),
    (_raises(asyncio.CancelledError()), "cancelled", "asyncio.exceptions.CancelledError"),
    (_raises(concurrent.futures.CancelledError()), "cancelled", None),
    (_raises(KeyboardInterrupt()), "cancelled", "KeyboardInterrupt"),
    (_raises(ValueError("secret")), "tool_error", "ValueError"),
    (_raises(SystemExit(3)), "tool_error", "SystemExit"),
    (_raises(httpx.ConnectError("no")), "tool_error", "httpx.ConnectError"),
    (_raises(TypeError("work() missing 1 required positional argument: 'n'")), "tool_error", "TypeError"),
    (_parses_in_its_body, "tool_error", "pydantic_core._pydantic_core.ValidationError"),
    (_binds_in_its_body, "tool_error", "TypeError"),
    (validate_call(lambda n="many": n), "ok", None),
]


@pytest.mark.parametrize(("tool", "outcome", "kind"), FAILURES)
def test_a_decorated_function_has_the_outcome_and_the_class_of_what_it_raised(recorded, tool, outcome, kind):
    decorated = otel_rl.tool("work")(tool)
    if outcome == "ok":
        decorated()
    else:
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - the table says of which class
            decorated()
        assert "secret" not in str([dict(span.attributes) for span in recorded.spans])
        if kind is None:
            kind = outcomes.error_type(caught.value)
    assert _ended(recorded) == (outcome, kind)


@pytest.mark.parametrize(("tool", "outcome", "kind"), FAILURES[:1] + FAILURES[10:11] + FAILURES[-3:-2])
@pytest.mark.parametrize("form", ["coroutine", "generator", "async generator", "block"])
def test_other_forms_of_a_tool_have_the_same_outcomes(recorded, tool, outcome, kind, form):
    @otel_rl.tool("work")
    async def coroutine():
        await asyncio.sleep(0)
        tool()

    @otel_rl.tool("work")
    def generator():
        yield 1
        tool()

    @otel_rl.tool("work")
    async def async_generator():
        yield 1
        tool()

    async def drain():
        return [item async for item in async_generator()]

    def block():
        with otel_rl.tool("work"):
            tool()

    forms = {
        "coroutine": lambda: asyncio.run(coroutine()),
        "generator": lambda: list(generator()),
        "async generator": lambda: asyncio.run(drain()),
        "block": block,
    }
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the table says of which class
        forms[form]()
    assert _ended(recorded) == (outcome, kind)


async def test_cancellation_by_asyncio_and_by_anyio_is_one(recorded):
    begun = asyncio.Event()

    @otel_rl.tool("work")
    async def work():
        begun.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await begun.wait()
        group.cancel_scope.cancel()
    assert _ended(recorded) == ("cancelled", "asyncio.exceptions.CancelledError")


def _count(n: int) -> int:
    return n


def _gives_a_parameter_that_is_not_there():
    with otel_rl.tool("work"):
        _count(m=1)


def _gives_too_many():
    with otel_rl.tool("work"):
        _count(1, 2)


def _gives_what_pydantic_refuses():
    with otel_rl.tool("work"):
        validate_call(_count)(n="many")


def _parses_what_the_model_wrote():
    with otel_rl.tool("work"):
        Arguments.model_validate({"n": "many"})


async def _calls_it_in_a_thread():
    with otel_rl.tool("work"):
        await asyncio.to_thread(_count, m=1)


def _calls_an_object():
    class Tool:
        def __call__(self, n):
            return n

    otel_rl.tool("work")(Tool())(m=1)


@pytest.mark.parametrize(
    "call",
    [
        _gives_a_parameter_that_is_not_there,
        _gives_too_many,
        _gives_what_pydantic_refuses,
        _parses_what_the_model_wrote,
        lambda: asyncio.run(_calls_it_in_a_thread()),
        _calls_an_object,
    ],
)
def test_arguments_that_are_refused_before_the_tool_begins_are_invalid(recorded, call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert _ended(recorded) == ("invalid_arguments", outcomes.error_type(caught.value))


def test_a_decorated_function_whose_arguments_do_not_bind_raises_what_it_raises_without_us(recorded):
    with pytest.raises(TypeError) as plain:
        _count(m=1)
    with pytest.raises(TypeError) as ours:
        otel_rl.tool("work")(_count)(m=1)
    assert str(ours.value) == str(plain.value)
    # Python refuses the call before it begins.
    assert not recorded.spans


@pytest.mark.parametrize("kind", ["timeout", "cancelled", "invalid_arguments", "unknown_tool", "tool_error"])
def test_what_the_program_says_in_these_words_is_the_outcome(recorded, kind):
    with otel_rl.tool("work") as call:
        call.fail(kind)
    assert _ended(recorded) == (kind, kind)


def test_what_the_program_says_in_other_words_is_a_tool_error(recorded):
    with otel_rl.tool("work") as call:
        call.fail("no_such_page")
    assert _ended(recorded) == ("tool_error", "no_such_page")


def test_a_consumer_that_stops_early_is_no_failure(recorded):
    @otel_rl.tool("work")
    def pieces():
        yield 1
        yield 2

    for _ in pieces():
        break
    otel_rl.flush()
    assert _ended(recorded) == ("ok", None)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("secret"), "tool_error"), (TimeoutError(), "timeout"), (TypeError("f() takes 1"), "tool_error")],
)
@pytest.mark.parametrize("form", ["function", "coroutine", "block"])
def test_an_exception_object_that_a_tool_returns_is_handed_on_and_is_a_failure(recorded, error, outcome, form):
    @otel_rl.tool("work")
    async def coroutine():
        return error

    with otel_rl.rollout():
        if form == "function":
            assert otel_rl.tool("work")(lambda: error)() is error
        elif form == "coroutine":
            assert asyncio.run(coroutine()) is error
        else:
            with otel_rl.tool("work") as call:
                call.result(error)
    assert error.__traceback__ is None
    assert _ended(recorded) == (outcome, type(error).__name__)
    assert recorded.span("rl.rollout").attributes["rl.rollout.tool_errors"] == 1
    assert "secret" not in str([dict(span.attributes) for span in recorded.spans])


def test_what_the_program_says_of_a_returned_exception_wins(recorded):
    with otel_rl.tool("work") as call:
        call.fail("timeout")
        call.result(ValueError())
    assert _ended(recorded) == ("timeout", "timeout")


def test_a_subprocess_that_hangs_fails_or_ends_well_shows_on_its_tool(recorded):
    @otel_rl.tool("hangs")
    def hangs():
        _runs("import time; time.sleep(60)", timeout=0.05)

    @otel_rl.tool("fails")
    def fails():
        _runs("raise SystemExit(7)")

    @otel_rl.tool("works")
    def works():
        return _runs("print(1)", capture_output=True)

    for tool, error in ((hangs, subprocess.TimeoutExpired), (fails, subprocess.CalledProcessError)):
        with pytest.raises(error):
            tool()
    assert works().stdout == b"1\n"
    found = {
        span.name.removeprefix("execute_tool "): tuple(span.attributes.get(key) for key in (OUTCOME, KIND, EXIT_CODE))
        for span in recorded.spans
    }
    assert found == {
        "hangs": ("timeout", "subprocess.TimeoutExpired", None),
        "fails": ("tool_error", "subprocess.CalledProcessError", 7),
        "works": ("ok", None, 0),
    }


ERRORS = [
    *("Error: no such table", "error executing tool add: x", "[ERROR] no", "ValueError: bad", "Exception - no"),
    *('{"error": "no"}', {"error": "no"}, {"isError": True}, [{"type": "text", "text": "Error: x"}]),
    "Traceback (most recent call last):",
]
NO_ERRORS = ["Errors found: 0", "error rate is 5 %", "The error: none", '{"error": null}', {"error": None}, [], 3, None]


@pytest.mark.parametrize(
    ("result", "outcome"), [*((one, "error_text") for one in ERRORS), *((one, "ok") for one in NO_ERRORS)]
)
def test_a_result_that_begins_as_an_error_does_is_suspected_and_no_failure(recorded, result, outcome):
    with otel_rl.tool("look") as call:
        call.result(result)
    span = recorded.span("execute_tool look")
    assert (span.attributes["rl.tool.outcome"], span.status.is_ok) == (outcome, True)


def test_a_span_that_gets_its_operation_at_its_end_is_the_tool_s_by_its_name(recorded):
    tracer = recorded.tracer_provider.get_tracer("opentelemetry.util.genai.handler")
    with otel_rl.rollout(rollout_id="r"), tracer.start_as_current_span("execute_tool add"):
        with otel_rl.tool("add"):
            pass
        with otel_rl.tool("other"):
            pass
    names = [(span.name, span.instrumentation_scope.name) for span in recorded.spans]
    assert names[:2] == [
        ("execute_tool other", "otel_rl.api"),
        ("execute_tool add", "opentelemetry.util.genai.handler"),
    ]
    assert recorded.span("rl.rollout").attributes["rl.rollout.tool_calls"] == 2


def test_a_call_ends_though_its_result_cannot_be_read(recorded):
    call = ToolCall(Scope("adapter"), "step").start()
    with pytest.raises(AttributeError):
        call.ended(object(), None, lambda call, result: call.result(result.observation))
    assert open_tools.here() is None
    assert recorded.span("execute_tool step").end_time is not None


@pytest.mark.parametrize(
    ("name", "values", "is_owner"),
    [("add", {}, True), ("SimpleTool", {"tool.name": "add"}, True), ("other", {}, False)],
)
def test_a_tool_of_openinference_gets_no_second_span_and_its_duration_is_ours(name, values, is_owner, recorded):
    tracer = recorded.tracer_provider.get_tracer("openinference.instrumentation.any")
    with tracer.start_as_current_span(name, attributes={"openinference.span.kind": "TOOL", **values}):
        with otel_rl.tool("add"):
            pass
    assert len(recorded.spans) == (1 if is_owner else 2)
    assert len(recorded.metrics()["gen_ai.execute_tool.duration"]) == 1
