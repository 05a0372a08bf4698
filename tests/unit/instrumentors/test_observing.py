"""Our hooks around a call: functions, coroutines, generators and async generators, and nothing of the call changes."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys

import pytest
import wrapt

from otel_rl.core import instrumentor_status
from otel_rl.instrumentors.base import Instrumentor
from otel_rl.instrumentors.patching import Patches

ERROR = ValueError("the program's")


class Library:
    def function(self, value):
        return self._answer(value)

    async def coroutine(self, value):
        await asyncio.sleep(0)
        return self._answer(value)

    def generator(self, value):
        sent = yield self._answer(value)
        yield sent
        return "done"

    async def async_generator(self, value):
        try:
            sent = yield self._answer(value)
        except KeyError as error:
            sent = error
        yield sent

    @classmethod
    def of_class(cls, value):
        return cls, value

    @staticmethod
    def static(value):
        return value

    def _answer(self, value):
        if isinstance(value, Exception):
            raise value
        return value


KINDS = ("function", "coroutine", "generator", "async_generator")


class Recorded:
    """Hooks that note what they are given."""

    def __init__(self, name):
        self.seen = []
        self.patches = Patches()
        self.patches.observe(
            Library,
            name,
            before=lambda *args, **_: self.seen.append(("before", args[-1])),
            begin=lambda *_, **__: "state",
            end=lambda state, result, error: self.seen.append(("end", state, result, error)),
            after=lambda result, *args, **_: self.seen.append(("after", result, args[-1])),
        )


@pytest.fixture
def recorded_calls(request):
    recorded = Recorded(request.param)
    yield recorded
    recorded.patches.restore()


def run(name, value):
    """Call the method and take all it gives."""
    result = getattr(Library(), name)(value)
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    if inspect.isgenerator(result):
        return list(result)
    if inspect.isasyncgen(result):

        async def values():
            return [one async for one in result]

        return asyncio.run(values())
    return result


@pytest.mark.parametrize("recorded_calls", KINDS, indirect=True, ids=KINDS)
def test_hooks_run_around_the_call_in_their_order(recorded_calls, request):
    name = request.node.callspec.id
    plain = {"generator": ["x", None], "async_generator": ["x", None]}.get(name, "x")
    result = {"generator": "done", "async_generator": None}.get(name, "x")
    assert run(name, "x") == plain
    assert recorded_calls.seen == [("before", "x"), ("end", "state", result, None), ("after", result, "x")]


@pytest.mark.parametrize("recorded_calls", KINDS, indirect=True, ids=KINDS)
def test_the_very_exception_of_the_original_arrives(recorded_calls, request):
    with pytest.raises(ValueError, match="the program's") as caught:
        run(request.node.callspec.id, ERROR)
    assert caught.value is ERROR
    assert recorded_calls.seen[-1] == ("end", "state", None, ERROR)


@pytest.mark.parametrize("recorded_calls", KINDS, indirect=True, ids=KINDS)
def test_the_kind_and_the_signature_stay(recorded_calls, request):
    name = request.node.callspec.id
    replaced, original = getattr(Library, name), recorded_calls.patches._replaced[0].original
    for check in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert check(replaced) == check(original)
    assert inspect.signature(replaced) == inspect.signature(original)
    assert replaced.__wrapped__ is original


@pytest.mark.parametrize("recorded_calls", ["generator"], indirect=True)
def test_a_generator_is_lazy_and_takes_what_is_sent(recorded_calls):
    generator = Library().generator("x")
    assert recorded_calls.seen == []
    assert next(generator) == "x"
    assert generator.send("y") == "y"
    generator.close()
    assert recorded_calls.seen[-1][:3] == ("end", "state", None)
    assert isinstance(recorded_calls.seen[-1][3], GeneratorExit)


@pytest.mark.parametrize("recorded_calls", ["async_generator"], indirect=True)
async def test_an_async_generator_takes_what_is_sent_and_thrown(recorded_calls):
    generator = Library().async_generator("x")
    assert recorded_calls.seen == []
    assert await anext(generator) == "x"
    assert await generator.asend("y") == "y"
    await generator.aclose()
    assert isinstance(recorded_calls.seen[-1][3], GeneratorExit)
    generator, error = Library().async_generator("x"), KeyError("thrown")
    await anext(generator)
    assert await generator.athrow(error) is error


@pytest.mark.parametrize("arguments", [(), ("x", "y")])
@pytest.mark.parametrize("recorded_calls", ["generator", "async_generator"], indirect=True)
def test_wrong_arguments_are_refused_at_the_call_and_not_at_the_first_item(recorded_calls, arguments, request):
    name = request.node.callspec.params["recorded_calls"]
    with pytest.raises(TypeError, match="positional argument"):
        getattr(Library(), name)(*arguments)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        getattr(Library(), name)("x", other=1)
    assert recorded_calls.seen == []


def test_hooks_of_a_generator_are_given_defaults_and_what_is_beyond_the_named_parameters():
    class Library:
        def stream(self, first, second=2, *rest, only=3, **others):
            yield first, second, rest, only, others

    given, patches = [], Patches()
    patches.observe(Library, "stream", before=lambda _, *args, **kwargs: given.append((args, kwargs)))

    assert list(Library().stream(second=5, first=1, more=6)) == [(1, 5, (), 3, {"more": 6})]
    assert list(Library().stream(1, 2, 3, only=4)) == [(1, 2, (3,), 4, {})]
    assert given == [((1, 5), {"only": 3, "more": 6}), ((1, 2, 3), {"only": 4})]


@pytest.mark.parametrize("recorded_calls", ["coroutine"], indirect=True)
async def test_cancellation_ends_a_followed_coroutine_and_passes(recorded_calls):
    task = asyncio.get_running_loop().create_task(Library().coroutine("x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(recorded_calls.seen[-1][3], asyncio.CancelledError)


async def test_a_coroutine_in_somebodys_plain_function_is_followed_to_its_end():
    class Client:
        def send(self, value):
            return Library().coroutine(value)

    ended: list[object] = []
    patches = Patches()
    begin, end = (lambda *_: "state"), (lambda _, result, __: ended.append(result))
    patches.observe(Client, "send", begin=begin, end=end, is_awaited=True)
    sent = Client().send("x")
    assert ended == []
    assert await sent == "x"
    assert ended == ["x"]
    patches.restore()


@pytest.mark.parametrize("name", ["of_class", "static"])
def test_class_and_static_methods_are_observed_as_such(name):
    recorded = Recorded(name)
    try:
        assert getattr(Library, name)("x") == ((Library, "x") if name == "of_class" else "x")
        assert type(vars(Library)[name]) is (classmethod if name == "of_class" else staticmethod)
        assert recorded.seen[0] == ("before", "x")
    finally:
        recorded.patches.restore()


@pytest.mark.parametrize("name", KINDS)
def test_hooks_that_fail_do_not_reach_the_program(name, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    def fail(*_, **__):
        raise RuntimeError("ours")

    plain = run(name, "x")
    patches = Patches()
    patches.observe(Library, name, before=fail, after=fail, begin=fail, end=fail)
    try:
        assert run(name, "x") == plain
    finally:
        patches.restore()


@pytest.mark.parametrize("name", ["function", "coroutine", "of_class"])
def test_what_somebody_wrapped_with_wrapt_before_still_gets_its_instance(name):
    original = vars(Library)[name]
    instances = []

    def theirs(wrapped, instance, args, kwargs):
        instances.append(instance)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(Library, name, theirs)
    recorded = Recorded(name)
    try:
        assert run(name, "x") == ((Library, "x") if name == "of_class" else "x")
        assert instances[0] is not None
        assert inspect.iscoroutinefunction(getattr(Library, name)) == (name == "coroutine")
        assert len(recorded.seen) == 3
    finally:
        recorded.patches.restore()
        setattr(Library, name, original)


def test_hooks_below_somebody_elses_wrapper_are_off_after_restoring():
    original = vars(Library)["function"]
    recorded = Recorded("function")
    ours = Library.function

    def theirs(self, value):
        return ours(self, value)

    Library.function = theirs
    try:
        recorded.patches.restore()
        assert Library().function("x") == "x"
        assert recorded.seen == []
    finally:
        Library.function = original


def test_a_class_that_is_gone_is_a_missing_name_and_no_failure():
    patches = Patches()
    assert not patches.observe(sys.modules[__name__], "NoClass.method", before=print, required=True)
    assert patches.missing_required == [f"{__name__}.NoClass.method"]


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Makes an instrumentor of a library that can really be imported."""
    (tmp_path / "some_library.py").write_text("def call():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "some_library", raising=False)
    made = []

    def make(patch, library="some_library", **members):
        kind = type(
            "Made",
            (Instrumentor,),
            {"library": library, "requirements": ("pytest >= 1",), "modules": {"some_library": patch}, **members},
        )
        made.append(kind())
        return made[-1]

    yield make
    for instrumentor in made:
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()


def test_an_instrumentor_whose_need_is_off_is_degraded_and_says_why(build):
    instrumentor = build(lambda module, patches: patches.observe(module, "call", before=print), needs=("base_library",))
    instrumentor.instrument(skip_dep_check=True)
    importlib.import_module("some_library")
    state = instrumentor_status.snapshot()["otel_rl_some_library"]
    assert state == {"state": "degraded", "reason": "needs otel_rl_base_library, which is not instrumented"}
    instrumentor_status.report("otel_rl_base_library", instrumentor_status.SKIPPED, "disabled")
    assert "which is skipped: disabled" in instrumentor_status.snapshot()["otel_rl_some_library"]["reason"]
    instrumentor_status.report("otel_rl_base_library", instrumentor_status.ACTIVE)
    assert instrumentor_status.snapshot()["otel_rl_some_library"]["state"] == "active"


def test_modules_of_a_companion_in_an_unsupported_version_are_left_alone(build):
    instrumentor = build(
        lambda module, patches: patches.observe(module, "call", before=print),
        requirements=("pytest >= 1", "some_library >= 2"),
    )
    from otel_rl.instrumentors import companions

    real = companions.version
    companions.version = lambda name: "1.0" if name == "some_library" else real(name)
    try:
        instrumentor.instrument(skip_dep_check=True)
        module = importlib.import_module("some_library")
    finally:
        companions.version = real
    assert not hasattr(module.call, "__wrapped__")
    state = instrumentor_status.snapshot()["otel_rl_some_library"]
    assert state == {"state": "degraded", "reason": "supports some_library>=2, installed is some_library 1.0"}


def test_the_event_loop_closes_an_observed_async_generator_once_and_in_silence():
    log, kept = [], []

    class Library:
        async def stream(self):
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                log.append("closed")

    patches = Patches()
    patches.observe(Library, "stream", before=lambda *_: None)

    async def program():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: log.append(told["message"]))
        for _ in range(4):
            stream = Library().stream()
            await anext(stream)
            kept.append(stream)

    asyncio.run(program())
    assert log == ["closed"] * 4


def test_every_item_of_an_async_generator_is_seen_before_it_is_handed_on():
    seen: list[object] = []
    note = seen.append

    class Library:
        async def stream(self):
            yield 1
            yield 2

    patches = Patches()
    patches.observe(
        Library,
        "stream",
        begin=lambda _: "state",
        each=lambda state, item: seen.append((state, item)),
        end=lambda state, result, error: seen.append((state, "ended")),
    )

    async def program():
        async for item in Library().stream():
            note(item)

    asyncio.run(program())
    patches.restore()
    assert seen == [("state", 1), 1, ("state", 2), 2, ("state", "ended")]


def test_a_library_that_is_installed_as_a_build_of_another_name_is_supported_by_that_name(build):
    instrumentor = build(
        lambda *_: None, requirements=("no_such_library >= 2, < 9999",), builds=("no_such_build", "pytest")
    )
    assert instrumentor.instrumentation_dependencies() == ("pytest >= 2, < 9999",)
    instrumentor.instrument()
    assert instrumentor.is_instrumented_by_opentelemetry
    alone = build(lambda *_: None, requirements=("no_such_library >= 2",), builds=("no_such_build",))
    assert alone.instrumentation_dependencies() == ("no_such_library >= 2",)
