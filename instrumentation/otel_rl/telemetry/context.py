"""Attach and detach OpenTelemetry contexts without ever writing to the program's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as otel_context

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context


def attach(context: Context) -> Token[Context]:
    """Make ``context`` current; give the token to :func:`detach`."""
    return otel_context.attach(context)


def detach(token: Token[Context]) -> bool:
    """Restore the previous context.

    Returns False when the token belongs to another thread or task (a generator finished elsewhere, say). The API's
    own ``detach`` logs a traceback then, which would be our noise in the program's output.
    """
    try:
        otel_context._RUNTIME_CONTEXT.detach(token)  # noqa: SLF001 - the public function logs instead of raising
    except (ValueError, RuntimeError):
        return False
    return True
