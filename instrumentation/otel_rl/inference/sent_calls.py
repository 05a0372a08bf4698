"""A model call around the function of a client that sends it, for functions and coroutines alike.

::

    with SentCall(begin(...), take) as sent:
        return sent.answered(original(...))  # in a coroutine: await original(...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from otel_rl.inference.calls import InferenceCall


class SentCall:
    """Ends ``call`` if the client raises, and leaves it before the program gets the answer.

    Args:
        call: current since its beginning; None to do nothing.
        take: ``take(call, answer)`` reads the answer and returns what the program gets; it must not raise.
    """

    __slots__ = ("_call", "_take")

    def __init__(self, call: InferenceCall | None, take: Callable[[InferenceCall, Any], Any]) -> None:
        self._call, self._take = call, take

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._call is not None and error is not None:
            self._call.finish(error)
            self._call.leave()

    def answered(self, answer: Any) -> Any:
        """Leave the call and return what the program gets."""
        if self._call is None:
            return answer
        self._call.leave()
        return self._take(self._call, answer)
