"""A decorated function does what the plain one does, with telemetry on and off."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import subprocess
import sys
import traceback
import types
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace

import otel_rl

pytestmark = pytest.mark.usefixtures("switch")


@pytest.fixture(params=["on", "off"], scope="module")
def switch(request):
    """Telemetry on or off, for a whole module: hypothesis runs many examples per fixture."""
    if request.param == "off":
        patch = pytest.MonkeyPatch()
        patch.setattr(otel_rl, "_enabled", lambda: False)
        yield request.param
        patch.undo()
    else:
        request.getfixturevalue("pipeline")
        yield request.param


class ExpectedError(Exception):
    """Thrown in by the consumer or raised by the body."""


#: What a body does when it is resumed, and what a consumer does with it.
BODY = st.lists(
    st.sampled_from(["yield", "yield_in_try", "swallow_exit", "raise", "raise_stop", "return", "raise_after_catch"]),
    max_size=5,
)
CONSUMER = st.lists(
    st.sampled_from(["next", "send", "throw", "throw_exit", "throw_stop", "throw_in_handler", "close"]), max_size=7
)


def _body(plan, log):
    try:
        for number, what in enumerate(plan):
            log.append(what)
            if what == "yield":
                log.append((yield number))
            elif what == "yield_in_try":
                try:
                    log.append((yield number))
                except ExpectedError as error:
                    log.append(("caught", str(error)))
            elif what == "swallow_exit":
                try:
                    log.append((yield number))
                except GeneratorExit:
                    log.append("exit swallowed")
            elif what == "raise":
                raise ExpectedError("from the body")
            elif what == "raise_stop":
                raise StopIteration("from the body")  # noqa: PLR1708 - becomes a RuntimeError
            elif what == "return":
                return "returned"
            else:
                with contextlib.suppress(BaseException):
                    yield number
                raise ExpectedError("later")
        return "end"
    finally:
        log.append("finally")


async def _async_body(plan, log):
    try:
        for number, what in enumerate(plan):
            log.append(what)
            if what == "yield":
                log.append((yield number))
            elif what == "yield_in_try":
                try:
                    log.append((yield number))
                except ExpectedError as error:
                    log.append(("caught", str(error)))
            elif what == "swallow_exit":
                try:
                    log.append((yield number))
                except GeneratorExit:
                    log.append("exit swallowed")
            elif what == "raise":
                raise ExpectedError("from the body")
            elif what == "raise_stop":
                raise StopAsyncIteration("from the body")
            elif what == "return":
                return
            else:
                with contextlib.suppress(BaseException):
                    yield number
                raise ExpectedError("later")
            await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0)
        log.append("finally")


def _told(error):
    """An exception with those that belong to it, as text."""
    if error is None:
        return None
    return type(error).__name__, str(error), _told(error.__cause__), _told(error.__context__)


def _thrown(action, number):
    kinds = {"throw_exit": GeneratorExit, "throw_stop": StopIteration, "throw_stop_async": StopAsyncIteration}
    return kinds.get(action, ExpectedError)(f"thrown {number}")


def _consume(generator, consumer):
    told = []
    for number, action in enumerate(consumer):
        try:
            with _being_handled(action):
                if action in ("next", "send"):
                    told.append(generator.send(number if action == "send" else None))
                elif action == "close":
                    told.append(generator.close())
                else:
                    told.append(generator.throw(_thrown(action, number)))
        except BaseException as error:  # noqa: BLE001 - compared
            told.append(_told(error))
    return told


async def _consume_async(generator, consumer):
    told = []
    for number, action in enumerate(consumer):
        try:
            with _being_handled(action):
                if action in ("next", "send"):
                    told.append(await generator.asend(number if action == "send" else None))
                elif action == "close":
                    told.append(await generator.aclose())
                else:
                    thrown = _thrown(action + "_async" if action == "throw_stop" else action, number)
                    told.append(await generator.athrow(thrown))
        except BaseException as error:  # noqa: BLE001 - compared
            told.append(_told(error))
    return told


@contextlib.contextmanager
def _being_handled(action):
    """The block runs while the consumer handles an exception of its own."""
    if action != "throw_in_handler":
        yield
        return
    try:
        {}["missing"]
    except KeyError:
        yield


DECORATORS = (
    otel_rl.rollout(),
    otel_rl.tool("search"),
    otel_rl.phase("sample"),
    otel_rl.llm("model"),
    otel_rl.span("work", size=1),
)


@settings(max_examples=300, deadline=None)
@given(plan=BODY, consumer=CONSUMER, decorator=st.sampled_from(DECORATORS))
def test_a_generator_answers_send_throw_and_close_like_the_plain_one(plan, consumer, decorator):
    plain_log, log = [], []
    # Both are kept until the end. A body that yields again while the garbage collector closes it gets a second close
    # when it is decorated, since there are two generators then.
    plain, decorated = _body(plan, plain_log), decorator(_body)(plan, log)
    assert _consume(decorated, consumer) == _consume(plain, consumer)
    assert log == plain_log


@settings(max_examples=200, deadline=None)
@given(plan=BODY, consumer=CONSUMER, decorator=st.sampled_from(DECORATORS))
def test_an_async_generator_answers_asend_athrow_and_aclose_like_the_plain_one(plan, consumer, decorator):
    async def compare():
        told, kept = [], []
        for function in (_async_body, decorator(_async_body)):
            log = []
            generator = function(plan, log)
            outcome = await _consume_async(generator, consumer)
            # Kept until the end, as above.
            kept.append(generator)
            told.append((outcome, list(log)))
        return told

    plain, decorated = asyncio.run(compare())
    assert decorated == plain


def _positional(a, b, /, c=1): ...
def _keywords(a, *, b, c=2): ...
def _anything(*args, **kwargs): ...
def _mixed(a, b=(), *args, c, d=None, **kwargs): ...


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("kind", ["function", "coroutine", "generator", "async_generator"])
@pytest.mark.parametrize("shape", [_positional, _keywords, _anything, _mixed])
@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3, 4), {"c": 5}), ((1,), {"b": 2}), ((), {"z": 1})]
)
def test_wrong_arguments_are_refused_at_the_call_with_the_same_words(kind, shape, args, kwargs, decorator):
    source = str(inspect.signature(shape)).removeprefix("(").removesuffix(")")
    template = {
        "function": "def subject({}): return dict(locals())",
        "coroutine": "async def subject({}): return dict(locals())",
        "generator": "def subject({}): yield dict(locals())",
        "async_generator": "async def subject({}): yield dict(locals())",
    }[kind]
    namespace = {}
    exec(template.format(source), namespace)  # noqa: S102 - signatures of this module
    plain = namespace["subject"]
    told = []
    for function in (plain, decorator(plain)):
        called = False
        try:
            made = function(*args, **kwargs)
            called = True
            if kind == "generator":
                made = next(made)
            elif kind == "coroutine":
                made = asyncio.run(made)
            elif kind == "async_generator":
                made = asyncio.run(anext_of(made))
            told.append(made)
        except TypeError as error:
            told.append((called, str(error)))
    assert told[0] == told[1]


async def anext_of(generator):
    found = await anext(generator)
    await generator.aclose()
    return found


IS = [
    name
    for name in dir(inspect)
    if name.startswith("is") and name.endswith(("function", "method", "routine", "builtin"))
]


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("question", IS)
def test_inspect_answers_as_for_the_plain_function(question, decorator):
    def function(): ...

    async def coroutine(): ...

    def generator():
        yield

    async def async_generator():
        yield

    for subject in (function, coroutine, generator, async_generator, functools.partial(generator)):
        ask = getattr(inspect, question)
        if not isinstance(subject, functools.partial) or "generator" in question:
            assert ask(decorator(subject)) == ask(subject)


def test_defaults_annotations_and_closures_stay():
    default = []
    free = "free"

    def subject(a: int, b: list = default, *, c: str = "c") -> str:
        return f"{a}{b}{c}{free}"

    decorated = otel_rl.tool("t")(subject)
    assert decorated.__defaults__[0] is default
    assert decorated.__kwdefaults__ == {"c": "c"}
    assert inspect.signature(decorated) == inspect.signature(subject)
    assert decorated.__code__.co_varnames[:3] == ("a", "b", "c")
    assert decorated(1) == subject(1)


def test_methods_and_class_methods_are_decorated_like_functions():
    class Environment:
        @otel_rl.tool("step")
        def step(self, action):
            return self, action

        @classmethod
        @otel_rl.tool("make")
        def make(cls, name):
            return cls, name

    environment = Environment()
    assert environment.step(1) == (environment, 1)
    assert Environment.make("x") == (Environment, "x")


def test_what_a_body_raises_has_its_own_frame_last():
    def subject():
        raise ExpectedError("here")
        yield

    with pytest.raises(ExpectedError) as caught:
        next(otel_rl.tool("t")(subject)())
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "subject"


def test_an_exception_that_passes_leaves_no_reference_cycle():
    class Payload:
        """Notices its end."""

    @otel_rl.tool("t")
    def subject(payload):
        yield payload

    gc.disable()
    try:
        payload = Payload()
        alive = weakref.ref(payload)
        generator = subject(payload)
        next(generator)
        with contextlib.suppress(ExpectedError):
            generator.throw(ExpectedError())
        del payload, generator
        assert alive() is None
    finally:
        gc.enable()


async def test_the_event_loop_closes_a_generator_once(switch):
    order = []

    @otel_rl.rollout()
    async def subject():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            order.append("closed")

    generators = []

    async def leave_open():
        generator = subject()
        generators.append(generator)
        await anext(generator)

    def run():
        problems = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
            await leave_open()

        asyncio.run(main())
        return problems

    assert await asyncio.to_thread(run) == []
    assert order == ["closed"]


def test_a_span_opened_in_a_generator_is_current_after_its_yield(switch):
    seen = []

    @otel_rl.rollout()
    def episodes():
        with trace.get_tracer("program").start_as_current_span("search") as span:
            seen.append(trace.get_current_span() is span)
            yield 1
            seen.append(trace.get_current_span() is span)
        seen.append(trace.get_current_span() is span)

    if switch == "off":
        pytest.skip("without telemetry a generator shares its consumer's context, as it does without us")
    outside = [trace.get_current_span().get_span_context().is_valid for _ in episodes()]
    assert outside == [False]
    assert seen == [True, True, False]


def test_broken_imports_of_the_sdk_never_reach_the_program():
    program = """
import sys
sys.modules["opentelemetry.sdk.trace.id_generator"] = None
from opentelemetry import trace
class Provider(trace.NoOpTracerProvider): pass
trace.set_tracer_provider(Provider())
import otel_rl
@otel_rl.tool("t")
def generator():
    yield 1
with otel_rl.rollout(), otel_rl.step(1), otel_rl.phase("train"):
    otel_rl.reward("r", 1.0); otel_rl.metric("k", 1.0); otel_rl.event("e")
    with otel_rl.llm("m") as call, otel_rl.span("s") as work:
        call.usage(input_tokens=1); call.finish("stop"); call.answer({}); work.set(a=1)
    assert otel_rl.trace_id() is None
    print(list(generator()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[1]\n"
    assert done.stderr.count("telemetry could not be set up") == 1


def test_a_decorator_above_staticmethod_or_classmethod_decorates_what_is_inside(switch):
    class Environment:
        @otel_rl.tool("static")
        @staticmethod
        def static(value):
            return value

        @otel_rl.tool("of_class")
        @classmethod
        def of_class(cls, value):
            return cls, value

    assert (Environment.static(1), Environment().static(1)) == (1, 1)
    assert (Environment.of_class(1), Environment().of_class(1)) == ((Environment, 1), (Environment, 1))


async def test_a_generator_that_is_a_coroutine_can_be_awaited(switch):
    @types.coroutine
    def plain(value):
        yield from asyncio.sleep(0).__await__()
        return value

    assert await otel_rl.tool("search")(plain)(7) == 7


async def test_an_object_whose_call_is_a_coroutine_is_recorded_while_it_runs(recorded, switch):
    if switch == "off":
        pytest.skip("nothing is recorded")

    class Search:
        async def __call__(self):
            await asyncio.sleep(0)
            return trace.get_current_span().get_span_context().span_id

    found = await otel_rl.tool("search")(Search())()
    assert found == recorded.span("execute_tool search").get_span_context().span_id


def test_a_decorated_function_finds_the_name_of_a_module_in_the_frame_that_calls_it(switch):
    @otel_rl.tool("search")
    def plain():
        return inspect.currentframe().f_back.f_globals["__name__"]

    assert isinstance(plain(), str)


def test_compiled_programs_take_a_decorated_function_for_ours(switch):
    # ``torch.compile`` goes by the file of the code (see instrumentors/dynamo.py).
    decorated = otel_rl.tool("search")(lambda: None)
    assert Path(decorated.__code__.co_filename).is_relative_to(Path(otel_rl.__file__).parent)
