"""The function of a client that sends a request, inside of a model call, where the answer may be replaced.

Use ``patches.observe`` if the answer stays as it is.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.inference.calls import InferenceCall

    #: Returns a current call or None, from arguments that it may change.
    Begin = Callable[[tuple[Any, ...], dict[str, Any]], InferenceCall | None]
    #: Reads the answer and returns what the program gets; it must not raise.
    Take = Callable[[InferenceCall, Any], Any]


def sends(original: Callable[..., Any], begin: Begin, take: Take) -> Callable[..., Any]:
    """Return a replacement for a function."""

    @functools.wraps(original)
    def send(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        try:
            answer = original(*args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        return _answered(call, answer, take)

    return send


def sends_async(original: Callable[..., Any], begin: Begin, take: Take) -> Callable[..., Any]:
    """Return a replacement for a coroutine."""

    @functools.wraps(original)
    async def send(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        try:
            answer = await original(*args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        return _answered(call, answer, take)

    return send


def _failed(call: InferenceCall | None, error: BaseException) -> None:
    if call is not None:
        call.finish(error)
        call.leave()


def _answered(call: InferenceCall | None, answer: Any, take: Take) -> Any:
    if call is None:
        return answer
    call.leave()
    return take(call, answer)
