"""Wrappers around other people's functions: one place for functions, coroutines, generators and async generators.

Context managers that `contextlib` makes of generators are among them.

A wrapper keeps signature, name, kind (coroutine, generator, class or static method) and laziness of what it wraps, and
hands on results and exceptions as they are. Our hooks are guarded, the wrapped call never is.
"""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.api.compiled_function import compiled_like
from otel_rl.core.guard import guard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    Function = Callable[..., Any]


#: Where a function that binds the wrapper object of somebody else keeps it: it is of that object's kind.
_BOUND = "_otel_rl_bound"


class Hooks(NamedTuple):
    """Our code around a call.

    Attributes:
        before: ``before(*args, **kwargs)``, ahead of the call.
        after: ``after(result, *args, **kwargs)``, when the call returned; of a generator when it is exhausted.
        begin: ``begin(*args, **kwargs)`` returns a state; None means that this call is not followed.
        end: ``end(state, result, error)``, once, however a call that is followed ends.
        each: ``each(state, item)``, before an item of an asynchronous generator that is followed is handed on.
        is_awaited: callers await what the function returns, even if somebody has wrapped it in a plain function.

    Of generators the hooks are given the parameters that have a position by position, however the program gave them.
    """

    site: str
    before: Function | None = None
    after: Function | None = None
    begin: Function | None = None
    end: Function | None = None
    each: Function | None = None
    is_awaited: bool = False


class Switch:
    """Turns the hooks of one wrapper off, where the wrapper itself cannot be taken away any more."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = True


class _ObservedCall:
    """One call: runs the hooks around it."""

    __slots__ = ("_args", "_hooks", "_kwargs", "_state")

    def __init__(self, hooks: Hooks, switch: Switch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hooks: Hooks | None = hooks if switch.on else None
        self._args, self._kwargs, self._state = args, kwargs, None
        if self._hooks is None:
            return
        if hooks.before is not None:
            with guard(hooks.site):
                hooks.before(*args, **kwargs)
        if hooks.begin is not None:
            with guard(hooks.site):
                self._state = hooks.begin(*args, **kwargs)

    def gives(self, item: Any) -> None:
        hooks = self._hooks
        if hooks is not None and hooks.each is not None and self._state is not None:
            with guard(hooks.site):
                hooks.each(self._state, item)

    def returned(self, result: Any) -> None:
        if self._hooks is None:
            return
        self._end(result, None)
        if self._hooks.after is not None:
            with guard(self._hooks.site):
                self._hooks.after(result, *self._args, **self._kwargs)

    def raised(self, error: BaseException) -> None:
        if self._hooks is not None:
            self._end(None, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        state, self._state = self._state, None
        if state is not None and self._hooks is not None and self._hooks.end is not None:
            with guard(self._hooks.site):
                self._hooks.end(state, result, error)


def with_instance(raw: Any) -> Any:
    """Return the object ``raw`` of a class dictionary as a function that takes the instance first.

    Class and static methods stay what they are; wrapping them is up to the caller.
    """
    if type(raw) is FunctionType or issubclass(type(raw), classmethod | staticmethod):
        return raw
    if type(raw).__name__ == "instancemethod":
        # pybind keeps one in the class dictionary; the function inside it takes the instance directly.
        return raw.__func__
    return _binding(raw) if hasattr(type(raw), "__get__") else raw


def _binding(raw: Any) -> Any:
    """``raw`` is the wrapper object of somebody else: wrapt's, for one, knows its instance only when it is bound.

    https://github.com/GrahamDumpleton/wrapt/blob/1.17.2/src/wrapt/wrappers.py (``FunctionWrapper.__call__``)
    """
    if isinstance(raw, classmethod | staticmethod):

        def of_class(cls: type, *args: Any, **kwargs: Any) -> Any:
            return raw.__get__(None, cls)(*args, **kwargs)

        return classmethod(functools.update_wrapper(of_class, raw.__func__))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return raw.__get__(self, type(self))(*args, **kwargs)

    bound = functools.update_wrapper(method, raw)
    setattr(bound, _BOUND, raw)
    return bound


def wrap(raw: Any, hooks: Hooks, switch: Switch) -> Any:
    """Return a wrapper of ``raw``, as :func:`with_instance` returns it, that is the same kind of object."""
    if isinstance(raw, classmethod | staticmethod):
        return type(raw)(wrap(raw.__func__, hooks, switch))
    function: Function = raw
    if not callable(function):
        raise TypeError(f"{hooks.site} is no function but {type(raw).__name__}")
    manager = _MANAGERS.get(function.__code__) if type(function) is FunctionType else None
    if manager is not None:
        return functools.update_wrapper(manager(wrap(raw.__wrapped__, hooks, switch)), function)
    kind = getattr(function, _BOUND, function)
    if inspect.isasyncgenfunction(kind):
        factory: Function = partial(_compiled, _ASYNC_GENERATOR)
    elif hooks.is_awaited or inspect.iscoroutinefunction(kind):
        factory = _coroutine
    elif inspect.isgeneratorfunction(kind):
        factory = partial(_compiled, _GENERATOR)
    else:
        factory = _function
    return functools.update_wrapper(factory(function, hooks, switch), function)


_DECORATORS: tuple[Function, ...] = (contextmanager, asynccontextmanager)
#: Code of the functions that these make of generators -> the decorator. For hooks the block is the call.
_MANAGERS = {decorator(lambda: None).__code__: decorator for decorator in _DECORATORS}


def _function(original: Function, hooks: Hooks, switch: Switch) -> Function:
    if hooks.begin is None and hooks.after is None and hooks.before is not None:
        return _function_with_before(original, hooks.before, hooks.site, switch)
    if hooks.begin is None and hooks.before is None and hooks.after is not None:
        return _function_with_after(original, hooks.after, hooks.site, switch)
    if hooks.begin is not None and hooks.before is None and hooks.after is None:
        return _function_with_begin(original, hooks.begin, hooks, switch)

    def function(*args: Any, **kwargs: Any) -> Any:
        followed = _ObservedCall(hooks, switch, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            followed.raised(error)
            raise
        followed.returned(result)
        return result

    return function


# With one hook only, or those of the two ends, as on hot paths: no object per call, and a guard only when something
# went wrong.


def _function_with_begin(original: Function, begin: Function, hooks: Hooks, switch: Switch) -> Function:
    site, end = hooks.site, hooks.end or _nothing

    def function(*args: Any, **kwargs: Any) -> Any:
        state = None
        if switch.on:
            try:
                state = begin(*args, **kwargs)
            except Exception as ours:  # noqa: BLE001 - counted
                guard(site).handle(ours)
        if state is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            with guard(site):
                end(state, None, error)
            raise
        try:
            end(state, result, None)
        except Exception as ours:  # noqa: BLE001 - counted
            guard(site).handle(ours)
        return result

    return function


def _nothing(*_: Any) -> None:
    """There is no hook for the end."""


def _function_with_before(original: Function, before: Function, site: str, switch: Switch) -> Function:
    def function(*args: Any, **kwargs: Any) -> Any:
        if switch.on:
            try:
                before(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - counted
                guard(site).handle(error)
        return original(*args, **kwargs)

    return function


def _function_with_after(original: Function, after: Function, site: str, switch: Switch) -> Function:
    def function(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.on:
            try:
                after(result, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - counted
                guard(site).handle(error)
        return result

    return function


def _coroutine(original: Function, hooks: Hooks, switch: Switch) -> Function:
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        followed = _ObservedCall(hooks, switch, args, kwargs)
        try:
            result = await original(*args, **kwargs)
        except BaseException as error:
            followed.raised(error)
            raise
        followed.returned(result)
        return result

    return coroutine


#: As templates, so that wrong arguments are refused at the call and not at the first item.
_GENERATOR = """def {name}({parameters}):
    {followed}, {items} = {start}({arguments})
    try:
        {result} = yield from {items}
    except BaseException as {error}:
        {followed}.raised({error})
        raise
    {followed}.returned({result})
    return {result}
"""
#: With `yield from` for asynchronous generators, which Python does not have (PEP 525).
_ASYNC_GENERATOR = """async def {name}({parameters}):
    {followed}, {items} = {start}({arguments})
    try:
        {item} = await {first}({items})
        while True:
            {followed}.gives({item})
            try:
                {sent} = yield {item}
            except GeneratorExit:
                await {items}.aclose()
                raise
            except BaseException as {error}:
                {item} = await {items}.athrow({error})
            else:
                {item} = await {items}.asend({sent})
    except StopAsyncIteration:
        {followed}.returned(None)
    except BaseException as {error}:
        {followed}.raised({error})
        raise
"""
_VARIABLES = ("followed", "items", "item", "sent", "result", "error")
#: In our folder, so that ``torch.compile`` takes the compiled functions for ours and looks at none of them.
_FILE = str(Path(__file__).with_name("<observing>"))


def _compiled(template: str, original: Function, hooks: Hooks, switch: Switch) -> Function:
    def start(*args: Any, **kwargs: Any) -> tuple[_ObservedCall, Any]:
        return _ObservedCall(hooks, switch, args, kwargs), original(*args, **kwargs)

    values = {"start": start, "first": _first}
    # The wrapper object of somebody else decides on its arguments itself.
    like = None if hasattr(original, _BOUND) else original
    return compiled_like(like, template, {}, values, _VARIABLES, (__name__, _FILE))  # type: ignore[no-any-return]


def _first(values: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    # The event loop closes the generators it knows. It knows ours, which closes the original; it must not do it too.
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return anext(values)
    finally:
        sys.set_asyncgen_hooks(*hooks)
