"""One model call from request to last chunk: its span, what was learnt about it, and its end, which comes once."""

from __future__ import annotations

import time
import weakref
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.openai import provider
from otel_rl.instrumentors.openai.response import Outcome
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues, RlInferenceStreamEndedValues
from otel_rl.telemetry import Scope, foreign, guard, lifecycle
from otel_rl.telemetry.attributes import error_type
from otel_rl.telemetry.content import capture_content
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from contextvars import Token

    from otel_rl.instrumentors.openai.request import Request

scope = Scope("openai")
#: The call whose HTTP attempts are being made; tells the hook on the headers which call an attempt belongs to.
current: ContextVar[InferenceCall | None] = ContextVar("otel_rl_openai_call", default=None)
#: Calls whose stream was garbage collected, with the moment of it (perf_counter in s, wall clock in ns).
_abandoned: deque[tuple[InferenceCall, float, int]] = deque()


class InferenceCall:
    """A call to a model. Its span is ours, or another instrumentor's that ours only adds to."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_ended",
        "_first_chunk",
        "_foreign",
        "_read",
        "_request",
        "_span",
        "_started",
        "_tokens",
        "attempts",
        "outcome",
        "watch",
    )

    def __init__(self, request: Request) -> None:
        self._request = request
        self._ended = False
        self._first_chunk: float | None = None
        self._read: tuple[float, int] | None = None
        self._tokens: tuple[Token[Any], Token[Any] | None] | None = None
        self.attempts = 0
        self.watch: weakref.finalize[..., Any] | None = None
        owner = foreign.inference_span()
        self._foreign = owner is not None
        self.outcome = Outcome(collects_text=not self._foreign and capture_content())
        self._started = time.perf_counter()
        self._span = owner or scope.start_span(request.definition, request.name, attributes=request.attributes)
        self._context = foreign.span_context(self._span) if owner is None else None

    # -- while the request is made ---------------------------------------------------------------------------

    def enter(self) -> None:
        """Make the call's span current, until :meth:`leave`; never across the reading of a stream."""
        self._tokens = (current.set(self), None if self._context is None else attach(self._context))

    def leave(self) -> None:
        """Restore what was current before."""
        tokens, self._tokens = self._tokens, None
        if tokens is not None:
            with guard("openai.leave"):
                current.reset(tokens[0])
                if tokens[1] is not None:
                    detach(tokens[1])

    # -- while the answer is read ----------------------------------------------------------------------------

    def chunk(self, chunk: Any) -> None:
        """One chunk of the stream arrived."""
        with guard("openai.chunk"):
            if self._first_chunk is None:
                self._first_chunk = time.perf_counter() - self._started
            if hasattr(chunk, "choices") or isinstance(chunk, dict):
                self.outcome.observe_chunk(chunk)
            else:
                self.outcome.observe_event(chunk)

    def body_was_read(self) -> None:
        """The answer is complete now; it may be parsed at any time later, or never."""
        self._read = (time.perf_counter(), time.time_ns())

    def watch_for_garbage(self, holder: object) -> None:
        """End the call when ``holder``, the stream or unparsed response, is dropped."""
        if self.watch is not None:
            self.watch.detach()
        self.watch = weakref.finalize(holder, self.abandon)

    def abandon(self) -> None:
        """The program dropped the answer. Runs inside the garbage collector, where no lock may be taken.

        The collector may have interrupted the SDK while it holds one: the end is recorded at the next call, or at
        shutdown.
        """
        if not self._ended:
            _abandoned.append((self, *(self._read or (time.perf_counter(), time.time_ns()))))

    def finish(
        self,
        error: BaseException | None = None,
        ended: str | None = None,
        at: tuple[float, int] | None = None,
    ) -> None:
        """End the call; later ends are ignored. ``ended`` says how a stream ended, ``at`` when, unless now."""
        if self._ended:
            return
        self._ended = True
        if self.watch is not None:
            self.watch.detach()
        now, wall = at or self._read or (time.perf_counter(), None)
        with guard("openai.finish"):
            self._record(now - self._started, error, ended if self._request.stream else None)
        if not self._foreign:
            scope.end_span(self._span, error, wall)

    def _record(self, duration: float, error: BaseException | None, ended: str | None) -> None:
        outcome = self.outcome
        if error is not None:
            self._observe_error(error)
            ended = RlInferenceStreamEndedValues.CANCELLED if _is_cancelled(error) and self._request.stream else ended
        found = outcome.server_attributes()
        found[attributes.RL_INFERENCE_RETRIES] = max(self.attempts - 1, 0)
        if ended is not None:
            found[attributes.RL_INFERENCE_STREAM_ENDED] = ended
        if self._foreign:
            foreign.add_attributes(self._span, found)
            return
        found.update(outcome.attributes())
        labels = self._request.metric_attributes
        if outcome.provider is not None and outcome.provider != labels[attributes.GEN_AI_PROVIDER_NAME]:
            provider.remember(self._request.host, self._request.port, outcome.provider)
            found[attributes.GEN_AI_PROVIDER_NAME] = labels[attributes.GEN_AI_PROVIDER_NAME] = outcome.provider
        if self._first_chunk is not None:
            found[attributes.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = self._first_chunk
        foreign.add_attributes(self._span, found)
        self._record_metrics(duration, labels, error)

    def _record_metrics(self, duration: float, labels: dict[str, Any], error: BaseException | None) -> None:
        context, outcome = self._context, self.outcome
        if self._first_chunk is not None:
            scope.record(metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, self._first_chunk, labels, context)
        counts = (
            (GenAiTokenTypeValues.INPUT, outcome.input_tokens),
            # An estimate stays on the span: a metric could not say that it is one.
            (GenAiTokenTypeValues.OUTPUT, outcome.exact_output_tokens()),
        )
        for kind, count in counts:
            if count is not None:
                scope.record(
                    metrics.GEN_AI_CLIENT_TOKEN_USAGE, count, {**labels, attributes.GEN_AI_TOKEN_TYPE: kind}, context
                )
        if error is not None:
            labels = {**labels, attributes.ERROR_TYPE: error_type(error)}
        scope.record(metrics.GEN_AI_CLIENT_OPERATION_DURATION, duration, labels, context)

    def _observe_error(self, error: BaseException) -> None:
        # LengthFinishReasonError of `parse` carries the answer, with its usage.
        completion = getattr(error, "completion", None)
        if completion is not None:
            self.outcome.observe(completion)


def record_abandoned() -> None:
    """End the calls whose answers have been garbage collected meanwhile."""
    while _abandoned:
        with guard("openai.abandoned"):
            call, moment, wall = _abandoned.popleft()
            call.finish(ended=RlInferenceStreamEndedValues.ABANDONED, at=(moment, wall))


def _is_cancelled(error: BaseException) -> bool:
    return type(error).__name__ == "CancelledError"


lifecycle.before_shutdown(record_abandoned)
# The parent ends its own calls; the copies in a child must not be recorded again.
lifecycle.after_fork_in_child(_abandoned.clear)
