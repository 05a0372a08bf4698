"""What an operation with a span has whatever it measures: it is current for a while, and it may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import Status, StatusCode

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self


class CurrentOperation:
    """Base of operations with ``start()`` and ``end(error)``, which are context managers too."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token: Token[Context] | None = None

    def start(self) -> Self:
        """Begin."""
        raise NotImplementedError

    def end(self, error: BaseException | None = None) -> None:
        """End; ``error`` is what ended it early."""
        raise NotImplementedError

    def enter(self, context: Context) -> None:
        """Make ``context`` current."""
        self._token = attach(context)

    def leave(self) -> None:
        """Restore what was current before; a second call does nothing."""
        token, self._token = self._token, None
        if token is not None:
            detach(token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)


def mark_error(span: Span, kind: str) -> None:
    """Make ``span`` an error of type ``kind`` without ending it."""
    if span.is_recording():
        kind = text(kind)
        span.set_attribute(attributes.ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, kind))
