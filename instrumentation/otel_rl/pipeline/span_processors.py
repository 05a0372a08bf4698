"""Span processors of the program on our provider: one that fails costs neither our spans nor the program an error.

OpenTelemetry calls them in the thread that starts or ends a span, and they may set attributes there. So they stay in
that thread, in their order; one that is slow is measured and named, since another thread would change what it sees.
"""

from __future__ import annotations

import time

# By name, before gevent can patch it.
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor

from otel_rl.core import instrumentor_status
from otel_rl.core.guard import count_error, guard, logger, raised_by_signal_handler

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

#: Seconds from which on a call is slow. The spans of a step are some hundred.
SLOW = 0.1
_OURS = "otel_rl."


class ForeignProcessor:
    """Failures and slow calls of one class of the program's span processors."""

    def __init__(self, kind: type) -> None:
        self.name = f"{kind.__module__}.{kind.__qualname__}"
        self.failed = self.slow = 0
        self.slowest = 0.0
        self.error = ""
        #: Thread -> when its present call began (``time.monotonic()``).
        self.calls: dict[int, float] = {}

    def end_call(self, method: str, began: float, error: BaseException | None) -> None:
        """Count what went wrong in a call that began at ``began``."""
        seconds = time.monotonic() - began
        if isinstance(error, Exception):
            self.failed += 1
            self.error = f"{type(error).__name__} in {method}"
            count_error("span_processors", error, f"the span processor {self.name} of the program in {method}")
            self._report(f"{self.error}, {self.failed} times")
        elif seconds >= SLOW:
            self.slow += 1
            self.slowest = max(self.slowest, seconds)
            words = f"took {self.slowest:.3g} s in {method}, in a thread that started or ended a span"
            if self.slow == 1:
                with guard("span_processors.log"):
                    logger.warning("otel-rl: the span processor %s of the program %s", self.name, words)
            self._report(words)

    def _report(self, reason: str) -> None:
        instrumentor_status.report(f"span processor {self.name}", instrumentor_status.DEGRADED, reason)

    def status(self) -> dict[str, Any]:
        """Return its state; ``open_seconds`` is the age of the oldest call that has not returned."""
        began = min(self.calls.copy().values(), default=None)
        return {
            "name": self.name,
            "available": not self.error and not self.slow,
            "failed": self.failed,
            "last_error": self.error,
            "slow": self.slow,
            "slowest_seconds": self.slowest,
            "open_seconds": 0.0 if began is None else time.monotonic() - began,
        }


class _ForeignCall:
    """``with _ForeignCall(processor, "on_start"):`` around one call; no :class:`Exception` of it escapes."""

    __slots__ = ("_began", "_method", "_processor", "_thread")

    def __init__(self, processor: ForeignProcessor, method: str) -> None:
        self._processor, self._method = processor, method

    def __enter__(self) -> None:
        self._thread = get_ident()
        self._began = self._processor.calls[self._thread] = time.monotonic()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._processor.calls.pop(self._thread, None)
        if error is not None and (not isinstance(error, Exception) or raised_by_signal_handler(error)):
            return False
        self._processor.end_call(self._method, self._began, error)
        return True


class IsolatedSpanProcessors(SynchronousMultiSpanProcessor):
    """The processors of our provider in the order in which they were added; ours are called as the SDK would."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[type, ForeignProcessor | None] = {}

    @property
    def foreign(self) -> list[ForeignProcessor]:
        """The program's processors that have been called, by class."""
        return [known for known in self._kinds.copy().values() if known is not None]

    def _foreign(self, processor: SpanProcessor) -> ForeignProcessor | None:
        kind = type(processor)
        try:
            return self._kinds[kind]
        except KeyError:
            known = None if kind.__module__.startswith(_OURS) else ForeignProcessor(kind)
            return self._kinds.setdefault(kind, known)

    def _tell(self, method: str, *arguments: Any, **named: Any) -> None:
        for processor in self._span_processors:
            foreign, call = self._foreign(processor), getattr(processor, method)
            if foreign is None:
                call(*arguments, **named)
            else:
                with _ForeignCall(foreign, method):
                    call(*arguments, **named)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Call each processor for a span that has started."""
        self._tell("on_start", span, parent_context=parent_context)

    def _on_ending(self, span: Span) -> None:
        self._tell("_on_ending", span)

    def on_end(self, span: ReadableSpan) -> None:
        """Call each processor for a span that has ended."""
        self._tell("on_end", span)

    def after_fork_in_child(self) -> None:
        """Forget calls of threads that the child does not have."""
        for foreign in self.foreign:
            foreign.calls.clear()


def isolate(provider: TracerProvider) -> None:
    """Isolate the processors of a ``provider`` that is not made here; its tracers refer to them already."""
    multi = provider._active_span_processor  # noqa: SLF001 - no public way to ask
    if type(multi) is SynchronousMultiSpanProcessor:
        multi.__class__ = IsolatedSpanProcessors
        multi._kinds = {}  # type: ignore[attr-defined]  # noqa: SLF001


def isolated(provider: TracerProvider | None) -> IsolatedSpanProcessors | None:
    """Return the processors of ``provider`` where they are isolated."""
    multi = getattr(provider, "_active_span_processor", None)
    return multi if isinstance(multi, IsolatedSpanProcessors) else None
