"""One call from request to last chunk: what is learnt about it on the way, and its end, which comes once."""

from __future__ import annotations

import time
import weakref
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.inference.calls import Inference
from otel_rl.instrumentors.openai import provider
from otel_rl.instrumentors.openai.response import Outcome
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues
from otel_rl.telemetry import Scope, guard, lifecycle

if TYPE_CHECKING:
    from contextvars import Token

    from otel_rl.instrumentors.openai.request import Request

scope = Scope("openai")
#: The call whose HTTP attempts are being made; tells the hook on the headers which call an attempt belongs to.
current: ContextVar[InferenceCall | None] = ContextVar("otel_rl_openai_call", default=None)
#: Calls whose stream was garbage collected, with the moment of it (perf_counter in s, wall clock in ns).
_abandoned: deque[tuple[InferenceCall, float, int]] = deque()


class InferenceCall(Inference):
    """A call through the ``openai`` client."""

    __slots__ = ("_current", "_ended", "_first_chunk", "_read", "_request", "_watch", "attempts", "outcome")

    def __init__(self, request: Request) -> None:
        super().__init__(scope, request.name, request.labels, request.values)
        self._request = request
        self._ended = False
        self._first_chunk: float | None = None
        self._read: tuple[float, int | None] | None = None
        self._current: Token[InferenceCall | None] | None = None
        self._watch: weakref.finalize[..., Any] | None = None
        self.attempts = 0
        self.outcome = Outcome(collects_text=self.owned and request.captures_content)

    def enter(self) -> None:
        """Make the call current until :meth:`leave`."""
        self._current = current.set(self)
        super().enter()

    def leave(self) -> None:
        """Restore what was current before."""
        with guard("openai.leave"):
            if self._current is not None:
                current.reset(self._current)
                self._current = None
            super().leave()

    def chunk(self, chunk: Any) -> None:
        """One chunk of the stream arrived."""
        with guard("openai.chunk"):
            if self._first_chunk is None:
                self._first_chunk = time.perf_counter() - self.started
            self.outcome.observe_chunk(chunk)

    def body_was_read(self) -> None:
        """The answer is complete now; it may be parsed at any time later, or never."""
        self._read = (time.perf_counter(), time.time_ns())

    def watch_for_garbage(self, holder: object) -> None:
        """End the call when ``holder``, the stream or unparsed response, is dropped."""
        if self._watch is not None:
            self._watch.detach()
        self._watch = weakref.finalize(holder, self.abandon)

    def abandon(self) -> None:
        """The program dropped the answer. Runs inside the garbage collector, where no lock may be taken.

        The collector may have interrupted the SDK while it holds one: the end is recorded at the next call, or at
        shutdown.
        """
        if not self._ended:
            moment, wall = self._read or (time.perf_counter(), time.time_ns())
            _abandoned.append((self, moment, wall or time.time_ns()))

    def finish(
        self,
        error: BaseException | None = None,
        ended: str | None = None,
        at: tuple[float, int | None] | None = None,
    ) -> None:
        """End the call; later ends are ignored. ``ended`` says how a stream ended, ``at`` when, unless now."""
        if self._ended:
            return
        self._ended = True
        if self._watch is not None:
            self._watch.detach()
        with guard("openai.finish"):
            now, wall = at or self._read or (time.perf_counter(), None)
            outcome = self.outcome
            if error is not None:
                # LengthFinishReasonError of `parse` carries the answer, with its usage.
                outcome.observe(getattr(error, "completion", None))
            self.end(
                now - self.started,
                self._found(error, ended),
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.exact_output_tokens(),
                first_chunk=self._first_chunk,
                error=error,
                end_time=wall,
            )

    def _found(self, error: BaseException | None, ended: str | None) -> dict[str, Any]:
        outcome = self.outcome
        found = outcome.server_attributes()
        found[attributes.RL_INFERENCE_RETRIES] = max(self.attempts - 1, 0)
        if self._request.stream:
            cancelled = error is not None and type(error).__name__ == "CancelledError"
            found[attributes.RL_INFERENCE_STREAM_ENDED] = RlInferenceStreamEndedValues.CANCELLED if cancelled else ended
        if self.owned:
            outcome.add_attributes(found)
            if self._first_chunk is not None:
                found[attributes.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = self._first_chunk
            if outcome.provider is not None and outcome.provider != self.labels[attributes.GEN_AI_PROVIDER_NAME]:
                provider.remember(self._request.host, self._request.port, outcome.provider)
                found[attributes.GEN_AI_PROVIDER_NAME] = outcome.provider
                self.labels[attributes.GEN_AI_PROVIDER_NAME] = outcome.provider
        return found


def record_abandoned() -> None:
    """End the calls whose answers have been garbage collected meanwhile."""
    while _abandoned:
        try:
            call, moment, wall = _abandoned.popleft()
        except IndexError:  # another thread took the last one
            return
        with guard("openai.abandoned"):
            call.finish(ended=RlInferenceStreamEndedValues.ABANDONED, at=(moment, wall))


lifecycle.before_shutdown(record_abandoned)
# The parent ends its own calls; the copies in a child must not be recorded again.
lifecycle.after_fork_in_child(_abandoned.clear)
