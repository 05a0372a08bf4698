"""Decorate any kind of function without changing what it is."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    #: Makes a fresh operation of the producer API (see ``otel_rl/__init__.py``).
    Operation = Callable[[], Any]
    Enabled = Callable[[], bool]


def wrap(function: Any, operation: Operation, enabled: Enabled) -> Any:
    """``function`` inside a fresh ``operation()`` at every call; coroutine and generator functions stay what they are.

    A generator's operation begins with its first item and is current only while the generator runs, so nothing leaks
    into the consumer's code between items. A consumer that stops early is no error.
    """
    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator(function, operation, enabled)
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, operation, enabled)
    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(function, operation)
    return _wrap_function(function, operation)


def _wrap_function(function: Any, operation: Operation) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with operation():
            return function(*args, **kwargs)

    return call


def _wrap_coroutine(function: Any, operation: Operation) -> Any:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with operation():
            return await function(*args, **kwargs)

    return call


def _wrap_generator(function: Any, operation: Operation, enabled: Enabled) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        if not enabled():
            return (yield from generator)
        with operation().open_detached() as detached:
            return (yield from _drive(generator, detached))

    return call


def _drive(generator: Any, detached: Any) -> Generator[Any, Any, Any]:
    """``yield from generator`` (PEP 380), with the operation current only while the generator runs."""
    resume, argument = generator.send, None
    while True:
        try:
            with detached.current():
                item = resume(argument)
        except StopIteration as stop:
            return stop.value
        try:
            resume, argument = generator.send, (yield item)
        except GeneratorExit:
            with detached.current():
                generator.close()
            raise
        except BaseException as error:  # noqa: BLE001 - thrown in by the consumer, handed on to the generator
            resume, argument = generator.throw, error


def _wrap_async_generator(function: Any, operation: Operation, enabled: Enabled) -> Any:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        generator = function(*args, **kwargs)
        if not enabled():
            async for item in generator:
                yield item
            return
        with operation().open_detached() as detached:
            resume, argument = generator.asend, None
            while True:
                try:
                    with detached.current():
                        item = await resume(argument)
                except StopAsyncIteration:
                    return
                try:
                    resume, argument = generator.asend, (yield item)
                except GeneratorExit:
                    with detached.current():
                        await generator.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - thrown in by the consumer, handed on to the generator
                    resume, argument = generator.athrow, error

    return call
