"""Decorate any kind of function without changing what it is.

The decorated function is compiled with the parameters of the original. So Python itself binds the arguments at the
call, and it stays a function, coroutine function, generator function or asynchronous generator function.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from otel_rl.api import collecting
from otel_rl.api.compiled_function import PREFIX, compiled_like, parameters_of
from otel_rl.api.inherited_methods import InheritedMethod, function_of, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    #: Makes a fresh operation of the producer API (see ``otel_rl/__init__.py``).
    Operation = Callable[[], Any]
    #: The same for one that has arguments and a result, given the names of the parameters and the values of the call.
    OperationOfCall = Callable[[tuple[str, ...], tuple[Any, ...]], Any]

_FUNCTION = """def {name}({parameters}):
    with {operation}({values}) as {opened}:
        return {opened}.handed_on({original}({arguments}))
"""
_COROUTINE = """async def {name}({parameters}):
    with {operation}({values}) as {opened}:
        {awaited} = {original}({arguments})
        {forget}
        return {opened}.returned(await {awaited})
"""
#: The loop of ``yield from`` (PEP 380) with every piece of the original inside the operation. What the consumer throws
#: is handed on outside of ``except``: it must not become the context of other exceptions. A ``close()`` arrives as
#: GeneratorExit; handed on like any other, it has the effects of ``close()``.
_GENERATOR = """{async_}def {name}({parameters}):
    {pieces} = {make}({operation}({values}), {original}({arguments}))
    {forget}
    while True:
        {await_}{pieces}.resume()
        if {pieces}.finished:
            return {value}
        try:
            {pieces}.sent = yield {pieces}.take_item()
        except BaseException as {thrown}:
            {pieces}.thrown = {thrown}
"""
_VARIABLES = ("opened", "awaited", "pieces", "thrown")
#: Methods of decorated classes -> what is recorded of them, and what stood there before.
_originals: WeakKeyDictionary[Any, tuple[object, Any]] = WeakKeyDictionary()
#: A finalizer for asynchronous generators that does nothing, and runs no Python.
_NOTHING: Any = id
#: First parameters that are no arguments of a tool.
_RECEIVERS = ("self", "cls")
#: In our folder, so that ``torch.compile`` takes the compiled functions for ours and looks at none of them.
_FILE = str(Path(__file__).with_name("<decorator>"))


def wrap(function: Any, operation: Operation) -> Any:
    """Wrap ``function``: each call runs inside a fresh ``operation()``.

    A generator's operation begins with its first item and is current only while the generator runs, so nothing leaks
    into the consumer's code between items. A consumer that stops early is no error.
    """
    if isinstance(function, classmethod | staticmethod):
        return type(function)(wrap(function.__func__, operation))
    return functools.wraps(function)(_compile(function, operation, None))


def wrap_call(function: Any, operation: OperationOfCall, *, has_receiver: bool = False) -> Any:
    """Like :func:`wrap`; the operation gets the arguments of the call and what it returned.

    With ``has_receiver`` the instance or class of a method is among the arguments.

    Of a generator it gets each item too, where it asks for them (``produced``).
    """
    if isinstance(function, classmethod | staticmethod):
        return type(function)(wrap_call(function.__func__, operation, has_receiver=has_receiver))
    names = _argument_names(_code(function), has_receiver=has_receiver)
    return functools.wraps(function)(_compile(function, lambda *values: operation(names, values), names))


def wrap_class(kind: type, operation: OperationOfCall, what: object) -> type:
    """``kind`` itself, whose ``__call__`` is wrapped like a function, also one that it inherits.

    Args:
        kind: The class.
        operation: As of :func:`wrap_call`.
        what: Equal for operations that record the same: of a base that is decorated too, a call is recorded once.

    Raises:
        TypeError: its objects cannot be called, or it cannot be changed.
    """
    method = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if method is None:
        raise TypeError(f"objects of {kind.__qualname__} cannot be called: decorate the method that does the work")
    if not inspect.isfunction(function_of(method)) and not isinstance(method, InheritedMethod):
        raise TypeError(
            f"{kind.__qualname__}.__call__ is no function but a {type(method).__name__}: decorate the function that it"
            " calls"
        )

    def wrapped(raw: Any) -> Any:
        new = wrap_call(raw, operation)
        _originals[function_of(new)] = what, raw
        return new

    def wrapped_of_base(raw: Any) -> Any:
        before, original = _originals.get(function_of(raw), (None, None))
        return wrapped(original if before == what else raw)

    kind.__call__ = wrap_method(  # type: ignore[method-assign]  # what it is for
        kind, "__call__", method, wrapped, wrapped_of_base
    )
    return kind


def _code(function: Any) -> CodeType | None:
    return function.__code__ if inspect.isfunction(function) else None


def _template(function: Any) -> tuple[str, dict[str, str], Any]:
    """Source for this kind of function, the words in it, and what makes the pieces of a generator."""
    if inspect.isasyncgenfunction(function):
        return _GENERATOR, {"async_": "async ", "await_": "await ", "value": ""}, AsyncPieces
    if inspect.isgeneratorfunction(function):
        return _GENERATOR, {"async_": "", "await_": "", "value": f"{PREFIX}pieces.value"}, Pieces
    return _COROUTINE if _is_coroutine_function(function) else _FUNCTION, {}, None


def _is_coroutine_function(function: Any) -> bool:
    # Of an object that is called, its class answers.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is asked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _compile(function: Any, operation: Any, arguments: tuple[str, ...] | None) -> Any:
    """Compile ``function`` inside of ``operation``, which is called with the parameters named in ``arguments``."""
    template, words, make = _template(function)
    objects = {"operation": operation, "original": function, "make": make}
    words = {**words, "values": ", ".join(arguments or ())}
    compiled = compiled_like(function, template, words, objects, _VARIABLES, (__name__, _FILE))
    code = _code(function)
    if code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return types.coroutine(compiled)
    return compiled


def _argument_names(code: CodeType | None, *, has_receiver: bool) -> tuple[str, ...]:
    """Names that the compiled function has for its arguments; of a method without the instance, unless asked for."""
    if code is None or parameters_of(code) is None:
        return ("args", "kwargs")
    flags = code.co_flags
    number = code.co_argcount + code.co_kwonlyargcount
    number += bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[:number]
    return names[1:] if not has_receiver and names[:1] and names[0] in _RECEIVERS else names


class _Operated:
    """A generator whose operation is open from its first piece to its end, and current during the pieces.

    While it waits for its consumer it keeps nothing that the generator itself would not keep.

    At the end of the interpreter the names of modules are gone when what waits still is closed. Then it closes the
    generator of the program and nothing else.
    """

    #: A collection may close it in the middle of anything.
    _may_interrupt = False
    __slots__ = ("_generator", "_is_closed", "_item", "_opened", "_operation", "finished", "sent", "thrown", "value")

    def __init__(self, operation: Any, generator: Any) -> None:
        self._generator = generator
        #: Until the first piece.
        self._operation = operation
        self._opened: Any = None
        self._item: Any = None
        #: What the consumer has sent, or an exception, for the next piece.
        self.sent: Any = None
        self.thrown: BaseException | None = None
        self.finished = False
        #: The consumer has closed it. An item that it makes in its clean-up is the last: Python reports an error.
        self._is_closed = False
        #: What the generator returned.
        self.value: Any = None

    def take_item(self) -> Any:
        """Take the item that the last piece has made."""
        item, self._item = self._item, None
        return item

    def _enter(self, is_finalizing: Any = sys.is_finalizing) -> None:
        if is_finalizing():
            return
        if self._operation is not None:
            self._opened, self._operation = self._operation.open_detached(), None
            if self._may_interrupt and self._opened is not None:
                collecting.watch()
        if self._opened is not None:
            self._opened.enter()

    def _leave(self, item: Any, is_finalizing: Any = sys.is_finalizing) -> None:
        self._item = item
        if self._opened is None or is_finalizing():
            return
        if self._is_closed:
            self._opened.close(GeneratorExit())
            self._opened = None
        else:
            self._opened.produced(item)
            self._opened.leave()

    def _close(self, error: BaseException | None, is_finalizing: Any = sys.is_finalizing) -> None:
        self.finished = True
        if self._opened is not None and not is_finalizing():
            if error is None:
                self._opened.returned(self.value)
            self._opened.close(error)

    def _take_sent(self) -> Any:
        sent, self.sent = self.sent, None
        return sent

    def _take_thrown(self) -> BaseException | None:
        # No local variable holds it: it would be a reference cycle with the traceback.
        self._is_closed = isinstance(self.thrown, GeneratorExit)
        try:
            return self.thrown
        finally:
            self.thrown = None


class Pieces(_Operated):
    """A generator in its operation."""

    __slots__ = ()
    _may_interrupt = collecting.INTERRUPTS

    def resume(self, is_finalizing: Any = sys.is_finalizing) -> None:
        """Make the next item; set :attr:`finished` where there is none."""
        if self.thrown is not None and not is_finalizing() and collecting.runs_here():
            self._advance_in_collection()
            return
        self._enter()
        self._advance()

    def _advance_in_collection(self) -> None:
        """Close the generator. It may have interrupted a change of the context, which must find it as it was."""
        from otel_rl.telemetry.context import attach, get_current, unchanged  # noqa: PLC0415 - telemetry is on

        before = get_current()
        try:
            with unchanged():
                self._advance()
        finally:
            # What the program has restored in its clean-up is the operation's, which is over.
            if get_current() is not before:
                attach(before)

    def _advance(self) -> None:
        try:
            if self.thrown is None:
                item = self._generator.send(self._take_sent())
            else:
                item = self._generator.throw(self._take_thrown())
        except StopIteration as stop:
            self.value = stop.value
            self._close(None)
        except BaseException as error:
            self._close(error)
            raise
        else:
            self._leave(item)


class AsyncPieces(_Operated):
    """An asynchronous generator in its operation. A collection leaves it to the event loop."""

    __slots__ = ()

    async def resume(self) -> None:
        """Make the next item; set :attr:`finished` where there is none."""
        self._enter()
        try:
            item = await (self._send() if self.thrown is None else self._generator.athrow(self._take_thrown()))
        except StopAsyncIteration:
            self._close(None)
        except BaseException as error:
            self._close(error)
            raise
        else:
            self._leave(item)

    def _send(self) -> Any:
        # The event loop closes the generators it knows. It knows ours; the original must not be closed beside it.
        hooks = sys.get_asyncgen_hooks()
        # With a finalizer, the collector leaves the original to ours too where both are garbage. This one does nothing.
        sys.set_asyncgen_hooks(None, _NOTHING if hooks.finalizer is not None else None)
        try:
            return self._generator.asend(self._take_sent())
        finally:
            sys.set_asyncgen_hooks(*hooks)
