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

from otel_rl.api.compiled_function import PREFIX, compiled_like

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Makes a fresh operation of the producer API (see ``otel_rl/__init__.py``).
    Operation = Callable[[], Any]

_FUNCTION = "def {name}({parameters}):\n    with {operation}():\n        return {original}({arguments})\n"
_COROUTINE = "async def {name}({parameters}):\n    with {operation}():\n        return await {original}({arguments})\n"
#: The loop of ``yield from`` (PEP 380) with every piece of the original inside the operation. What the consumer throws
#: is handed on outside of ``except``: it must not become the context of other exceptions. A ``close()`` arrives as
#: GeneratorExit; handed on like any other, it has the effects of ``close()``.
_GENERATOR = """{async_}def {name}({parameters}):
    {pieces} = {make}({operation}(), {original}({arguments}))
    {sent} = None
    while True:
        {item} = {await_}{pieces}.resume({sent})
        if {pieces}.finished:
            return {value}
        try:
            {sent} = yield {item}
        except BaseException as {thrown}:
            {pieces}.thrown, {sent} = {thrown}, None
"""
_VARIABLES = ("pieces", "sent", "item", "thrown")
#: In our folder, so that ``torch.compile`` takes the compiled functions for ours and looks at none of them.
_FILE = str(Path(__file__).with_name("<decorator>"))


def wrap(function: Any, operation: Operation) -> Any:
    """``function`` inside a fresh ``operation()`` at every call.

    A generator's operation begins with its first item and is current only while the generator runs, so nothing leaks
    into the consumer's code between items. A consumer that stops early is no error.
    """
    if isinstance(function, classmethod | staticmethod):
        return type(function)(wrap(function.__func__, operation))
    make: Any = None
    if inspect.isasyncgenfunction(function):
        template, make = _GENERATOR, AsyncPieces
        words = {"async_": "async ", "await_": "await ", "value": ""}
    elif inspect.isgeneratorfunction(function):
        template, make = _GENERATOR, Pieces
        words = {"async_": "", "await_": "", "value": f"{PREFIX}pieces.value"}
    else:
        template, words = _COROUTINE if _is_coroutine_function(function) else _FUNCTION, {}
    return functools.wraps(function)(_compile(template, words, function, operation, make))


def _is_coroutine_function(function: Any) -> bool:
    # Of an object that is called, its class answers.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is asked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _compile(template: str, words: dict[str, str], function: Any, operation: Operation, make: Any) -> Any:
    values = {"operation": operation, "original": function, "make": make}
    compiled = compiled_like(function, template, words, values, _VARIABLES, (__name__, _FILE))
    if inspect.isfunction(function) and function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return types.coroutine(compiled)
    return compiled


class _Operated:
    """A generator whose operation is open from its first piece to its end, and current during the pieces."""

    __slots__ = ("_generator", "_opened", "_operation", "finished", "thrown", "value")

    def __init__(self, operation: Any, generator: Any) -> None:
        self._generator = generator
        #: Until the first piece.
        self._operation = operation
        self._opened: Any = None
        #: An exception for the next piece.
        self.thrown: BaseException | None = None
        self.finished = False
        #: What the generator returned.
        self.value: Any = None

    def _enter(self) -> None:
        if self._operation is not None:
            self._opened, self._operation = self._operation.open_detached(), None
        if self._opened is not None:
            self._opened.enter()

    def _leave(self) -> None:
        if self._opened is not None:
            self._opened.leave()

    def _close(self, error: BaseException | None) -> None:
        self.finished = True
        if self._opened is not None:
            self._opened.close(error)

    def _take_thrown(self) -> BaseException | None:
        # No local variable holds it: it would be a reference cycle with the traceback.
        try:
            return self.thrown
        finally:
            self.thrown = None


class Pieces(_Operated):
    """A generator in its operation."""

    __slots__ = ()

    def resume(self, sent: Any) -> Any:
        """The next item; sets :attr:`finished` where there is none."""
        self._enter()
        try:
            item = self._generator.send(sent) if self.thrown is None else self._generator.throw(self._take_thrown())
        except StopIteration as stop:
            self._close(None)
            self.value = stop.value
            return None
        except BaseException as error:
            self._close(error)
            raise
        self._leave()
        return item


class AsyncPieces(_Operated):
    """An asynchronous generator in its operation."""

    __slots__ = ()

    async def resume(self, sent: Any) -> Any:
        """The next item; sets :attr:`finished` where there is none."""
        self._enter()
        try:
            item = await (self._send(sent) if self.thrown is None else self._generator.athrow(self._take_thrown()))
        except StopAsyncIteration:
            self._close(None)
            return None
        except BaseException as error:
            self._close(error)
            raise
        self._leave()
        return item

    def _send(self, sent: Any) -> Any:
        # The event loop closes the generators it knows. It knows ours; the original must not be closed beside it.
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return self._generator.asend(sent)
        finally:
            sys.set_asyncgen_hooks(*hooks)
