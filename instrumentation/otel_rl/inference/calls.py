"""Model calls: one span and one set of metrics per call, whoever else is watching.

The counterpart of :mod:`otel_rl.tools.calls`, and the hottest path of a rollout: one guard, and no attribute cleaned
twice. A client's instrumentor describes the request, makes the call current while it is sent, and says how it ended::

    call = InferenceCall(scope, Request(endpoint, server, body))
    call.enter()         # until leave(): the span is current, `current` gives hooks below the call they serve
    call.answer.observe(answer)
    call.finish()
"""

from __future__ import annotations

import time
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.inference import (
    call_roles,
    counted_calls,
    dropped_answers,
    measurements,
    ownership,
    tool_round_trips,
)
from otel_rl.inference.answers import Answer
from otel_rl.inference.requests import EMBEDDINGS, number_of_prompts
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlCallKindValues, RlInferenceStreamEndedValues
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.telemetry import conversations, judging, lifecycle, open_spans, open_trajectory, progress, side_calls
from otel_rl.telemetry.attribute_values import error_type, is_cancellation
from otel_rl.telemetry.content_capture import capture
from otel_rl.telemetry.context import attach, detach
from otel_rl.tools import open_tools

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.inference.captured_content import CapturedContent
    from otel_rl.inference.requests import ModelRequest
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

#: The call whose HTTP attempts are being made; a hook on the transport reads from it which call an attempt belongs to.
current: ContextVar[InferenceCall | None] = ContextVar("otel_rl_inference_call", default=None)
#: Stands for this process: a forked child has another.
_process = object()
#: Longest body of an answer that is parsed for its usage where the program does not parse it with its client, in bytes.
LONGEST_BODY = 262_144
_LEAVE, _CHUNK, _FINISH, _TOOLS = (guard(f"inference.{site}") for site in ("leave", "chunk", "finish", "tools"))


class InferenceCall:
    """A call to a model from its request to the end of its answer.

    ``owned`` is False where another instrumentor has a span for the call: ``span`` is that one, and ours adds to it.
    ``answers`` makes the answer; its argument is True where content is wanted.
    Only :meth:`enter`, :meth:`leave` and the construction are for the caller to guard.
    """

    _attached: Token[Context] | None = None
    _current: Token[InferenceCall | None] | None = None
    _context: Context | None = None
    #: What was said, where the user wants it.
    _content: CapturedContent | None = None
    _ended = False
    _first_chunk: float | None = None
    _read: tuple[float, int] | None = None
    _watch: weakref.finalize[..., Any] | None = None
    _emits_metrics = True
    _counts = True
    owned = True
    #: The span gets what the conventions ask of a call, content included.
    _describes = True
    #: Whose call it is, see ``call_roles``.
    role: str | None = None
    #: The reward outside of all trajectories that it is part of.
    _judging: judging.Judging | None = None
    event_loop = 0
    #: See :class:`otel_rl.telemetry.progress.OpenCall`.
    begin: progress.CallBegin | None = None
    last_inside = 0.0
    #: Times the request was sent.
    attempts = 0
    #: Body of the answer, while nobody has parsed it.
    body: bytes | None = None
    #: As in :class:`otel_rl.telemetry.model_turns.OpenModelCall`.
    answer_began: float | None = None
    turn: int | None = None
    #: Tools that its answer asks for and the trajectory knows.
    asked_tools = 0
    #: Its answer was dropped then, in the clocks of ``_read``.
    _dropped: tuple[float, int] | None = None
    _last_chunk: float | None = None
    #: The program waits for the next chunk; who follows a stream says so.
    is_being_read = False

    def __init__(self, scope: Scope, request: ModelRequest, answers: Callable[[bool], Answer] = Answer) -> None:
        self._scope = scope
        self._request = request
        self._process = _process
        #: Start of the call, ``time.perf_counter()`` in s.
        self.started = time.perf_counter()
        context = get_current()
        self._trajectory = trajectory = open_trajectory.current(context)
        #: An embedding is no turn, and stands for no other call.
        self._is_turn = request.endpoint.operation != EMBEDDINGS.operation
        self._parent_call = ownership.parent_call(context, self._trajectory) if self._is_turn else None
        self.role = call_roles.role_of(context, trajectory, request.body.get("model"), self._parent_call)
        if trajectory is None and self.role == Role.JUDGE:
            self._judging = judging.outside(context)
        if self._parent_call is not None:
            self._parent_call.child_began()
        # A judge is shown the results of the policy's tools, too.
        if (
            trajectory is not None
            and self.role == Role.POLICY
            and (trajectory.tool_matches.asked or trajectory.turns.has_open)
        ):
            with _TOOLS:
                tool_round_trips.returned(scope, trajectory, request.read())
        owner = ownership.of_call(scope.name, request.endpoint, context)
        if owner is None:
            self._begin(scope, request, context)
        else:
            self._join(owner, request)
        self.answer = answers(self._content is not None)
        if "prompt" in request.body:
            self.answer.requests = number_of_prompts(request.body)
        self._flight = flight.begin(layout.MODEL_CALL, request.name)
        progress.began_in_event_loop(progress.MODEL_CALLS, self)
        progress.call_began(self, open_tools.here(context))
        request.forget()
        if trajectory is not None and self._is_turn:
            trajectory.model_call_began(self)

    def _begin(self, scope: Scope, request: ModelRequest, context: Context) -> None:
        request.read()
        values = {**request.labels, **request.values}
        conversation = conversations.current(context)
        if conversation is not None:
            values[attributes.GEN_AI_CONVERSATION_ID] = conversation
        self.span = span = scope.begin_span(request.name, context, SpanKind.CLIENT, values)
        self._context = trace_api.set_span_in_context(span, context)
        self._capture(request)

    def _capture(self, request: ModelRequest) -> None:
        wanted, span = capture(), self.span
        if wanted.event or (wanted.span and span.is_recording()):
            from otel_rl.inference import captured_content  # noqa: PLC0415 - few programs record content

            self._content = captured_content.CapturedContent(wanted, request, self._trajectory)

    def _join(self, owner: ownership.Owned, request: ModelRequest) -> None:
        """Add to the span of another instrumentor."""
        self.owned = False
        self._emits_metrics = not owner.emits_metrics
        self.span = owner.span
        self._describes = owner.is_partial
        if owner.operation is not None:
            # Metrics and spans of a call have one name: Gemini's own is `generate_content`, that of most owners `chat`.
            request.labels = {**request.labels, attributes.GEN_AI_OPERATION_NAME: owner.operation}
        if owner.is_partial:
            request.read()
            self._capture(request)
        if owner.span.is_recording() and owner.span is not trace_api.get_current_span():
            # For the trace context on the wire.
            self._context = trace_api.set_span_in_context(owner.span)

    @property
    def has_ended(self) -> bool:
        """True when the answer is there."""
        return self._ended or self._read is not None

    @property
    def is_recorded(self) -> bool:
        """True after :meth:`finish`."""
        return self._ended

    def state(self) -> progress.CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self.has_ended or self._dropped is not None:
            return None
        request = self._request
        return progress.CallState(
            RlCallKindValues.MODEL,
            request.name,
            {**request.labels, **request.values},
            self.span,
            self._trajectory,
            progress.parent_of(self.span),
            self._last_chunk or 0.0,
            is_held=self._last_chunk is not None and not self.is_being_read,
        )

    @property
    def is_current(self) -> bool:
        """True between :meth:`enter` and :meth:`leave`; a task that began in it may have it in its context for ever."""
        return self._current is not None

    def enter(self) -> None:
        """Make the call and its span current until :meth:`leave`; never while the program holds a stream."""
        self._current = current.set(self)
        if self._context is not None:
            self._attached = attach(self._context)

    def leave(self) -> None:
        """Restore what was current before."""
        with _LEAVE:
            token, self._current = self._current, None
            if token is not None:
                current.reset(token)
            attached, self._attached = self._attached, None
            detach(attached)

    def chunk(self, chunk: Any) -> None:
        """One chunk of the stream arrived."""
        with _CHUNK:
            self.observe_chunk(chunk)

    def observe_chunk(self, chunk: Any) -> None:
        """Observe a chunk, for a caller that guards this."""
        self._last_chunk = now = time.perf_counter()
        if self._first_chunk is None:
            self._first_chunk = now - self.started
        self.answer.observe_chunk(chunk)

    def first_chunk_arrived(self) -> None:
        """Note that the answer begins, unless it has."""
        if self._first_chunk is None:
            self._first_chunk = time.perf_counter() - self.started
            self.begin_turn()

    def begin_turn(self) -> None:
        """Note that the program has the answer, perhaps only its head."""
        if self.answer_began is None:
            self.answer_began = time.perf_counter()
            if self._trajectory is not None and self._is_turn and self.role not in side_calls.COLUMNS:
                self._trajectory.turns.answer_began(self)

    def is_streamed(self, answers: Callable[[bool], Answer]) -> None:
        """Note that the answer is a stream by its head, where the request was not known to ask for one."""
        self._request.stream = True
        requests = self.answer.requests
        self.answer = answers(self._content is not None)
        self.answer.requests = requests

    def child_began(self) -> None:
        """Let a call inside of this one count in the trajectory, whenever it ends; it sees the same foreign span."""
        self._counts, self._emits_metrics = False, self._emits_metrics and self.owned
        if self._trajectory is not None and self._trajectory.turns.take(self):
            self._trajectory.turns.remove(self)

    def child_ended(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Add the tokens of a call inside: their sum is ours where the server sends none."""
        self.answer.add_inside(input_tokens, output_tokens)

    def counts_in(self, trajectory: OpenTrajectory | None) -> bool:
        """Return whether it counts in ``trajectory``."""
        return self._trajectory is trajectory

    def record_body_read(self, body: bytes | None = None) -> None:
        """Note that the answer is complete; it may be parsed at any time later, or never.

        ``body`` is parsed for its usage if nobody else does, up to :data:`LONGEST_BODY`.
        """
        if self._ended:
            return
        if self._read is None:
            self._read = (time.perf_counter(), time.time_ns())
        if body is not None and len(body) <= LONGEST_BODY:
            self.body = body
        if self._trajectory is not None:
            self._trajectory.wait_for(self)

    def watch_for_garbage(self, holder: object) -> None:
        """End the call when ``holder``, the stream or unparsed response, is dropped."""
        self.begin_turn()
        if self._watch is not None:
            self._watch.detach()
        self._watch = weakref.finalize(holder, self.abandon)

    def abandon(self) -> None:
        """End a call whose answer was dropped. Runs inside the garbage collector, where no lock may be taken.

        The collector may have interrupted the SDK while it holds one: the end is recorded at the next call, at the end
        of the trajectory, or at shutdown. It is that of the reading: the collector comes whenever it likes.
        """
        if not self._ended and self._process is _process:
            self._dropped = self._read or self._moment_of_last_chunk()
            dropped_answers.dropped.append(self)

    def _moment_of_last_chunk(self) -> tuple[float, int]:
        now = time.perf_counter()
        last = self._last_chunk or self.answer_began or now
        return last, time.time_ns() - int((now - last) * 1e9)

    def end_if_dropped(self) -> None:
        """See :class:`otel_rl.telemetry.model_turns.OpenModelCall`, as for the next two."""
        if self._dropped is not None:
            self.finish(ended=RlInferenceStreamEndedValues.ABANDONED, at=self._dropped)

    def goes_on(self) -> None:
        """Note what its answer has asked for by now."""
        if self._trajectory is not None:
            counted_calls.note_asked_tools(self, self._trajectory)

    def count_so_far(self) -> None:
        """See :class:`otel_rl.telemetry.model_turns.OpenModelCall`."""
        if self._trajectory is not None:
            counted_calls.count_so_far(self, self._trajectory)

    @property
    def engine(self) -> tuple[str, int | None, str]:
        """Address and port of the server, and the model: what its versions of the weights belong to."""
        return self._request.engine

    def withdraw(self) -> None:
        """End the call and record nothing: the model was not asked after all."""
        if not self._ended:
            self._ended = True
            self.child_began()
            progress.call_ended()
            progress.call_is_over(self, RlCallKindValues.MODEL, self._request.name, failed=False, was_left=True)
            flight.end(self._flight, failed=False)

    def finish(
        self,
        error: BaseException | None = None,
        ended: str | None = None,
        at: tuple[float, int] | None = None,
    ) -> None:
        """End the call; ``ended`` says how a stream ended, ``at`` when, unless now.

        Later ends are ignored, and those in a forked child: the parent ends it.
        """
        if self._ended or self._process is not _process:
            return
        self._ended = True
        if self._trajectory is not None:
            self._trajectory.unparsed.pop(self, None)
        if self._watch is not None:
            self._watch.detach()
        with _FINISH:
            progress.call_ended()
            flight.end(self._flight, error is not None)
            self._finish(error, ended, at)

    def _finish(self, error: BaseException | None, ended: str | None, at: tuple[float, int] | None) -> None:
        read = at or self._read
        duration = (time.perf_counter() if read is None else read[0]) - self.started
        answer = self.answer
        answer.end()
        if error is not None:
            # LengthFinishReasonError of openai's `parse` carries the answer, with its usage.
            answer.observe(getattr(error, "completion", None))
        elif self.body is not None:
            answer.observe_body(self.body)
            self.body = None
        kind = answer.failure if error is None else error_type(error)
        was_left = ended is not None and ended != RlInferenceStreamEndedValues.COMPLETED
        progress.call_is_over(
            self,
            RlCallKindValues.MODEL,
            self._request.name,
            failed=kind is not None and not is_cancellation(kind),
            was_left=was_left or is_cancellation(kind or ""),
            work=answer.exact_output_tokens(),
        )
        if answer.engine is not None and self._request.is_private:
            from otel_rl.inference.engine_targets import note  # noqa: PLC0415 - few programs ask engines of their own

            note(*self._request.engine[:2])
        answer.adopt()
        if self._parent_call is not None:
            self._parent_call.child_ended(*answer.tokens)
        if self._counts:
            self._count(error, ended, failed=kind is not None)
        values = self._span_values(error, ended)
        turn = self.turn
        if turn is None and kind is None and not self._counts and self._trajectory is not None:
            # The call inside counts instead.
            turn = None if self.role in side_calls.COLUMNS else self._trajectory.turn
        if turn is not None:
            values[attributes.RL_ROLLOUT_TURN] = turn
        try:
            self._add_to_span(values, kind)
        finally:
            if self.owned:
                self._scope.end_span(self.span, kind, None if read is None else read[1])
        if self._emits_metrics:
            self._measure(duration, kind)

    def _add_to_span(self, values: dict[str, Any], kind: str | None) -> None:
        if self._content is not None:
            context = self._context or trace_api.set_span_in_context(self.span)
            values |= self._content.ended(self._scope, self._request, self.answer, values, kind, context)
        if self.owned or self.span.is_recording():
            open_spans.add(self.span, values)

    def _count(self, error: BaseException | None, ended: str | None, *, failed: bool) -> None:
        """Count it where it belongs, and in the step."""
        if self._trajectory is not None:
            counted_calls.count(self, self._trajectory, is_turn=self._is_turn, failed=failed)
        elif self._judging is not None:
            counted_calls.count_judge(self, self._judging, is_turn=self._is_turn, failed=failed)
        if self._is_turn:
            # Who drops an answer that is there has not left the engine.
            left = ended if self._read is None else None
            counted_calls.add_to_step(self.answer, error, left, is_private=self._request.is_private)

    @property
    def last_read(self) -> float:
        """When the program got the last of the answer, ``time.perf_counter()`` in s; now, where nobody knows."""
        return (self._dropped or self._read or (self._last_chunk or time.perf_counter(),))[0]

    def _span_values(self, error: BaseException | None, ended: str | None) -> dict[str, Any]:
        """Attributes for the span, all of them clean."""
        values = self.answer.server_attributes()
        if self.role is not None:
            values[attributes.RL_INFERENCE_ROLE] = self.role
        if not self._counts and not self.owned:
            return values  # A call inside has written the rest to the same span.
        values[attributes.RL_INFERENCE_RETRIES] = self.attempts - 1 if self.attempts else 0
        if self._request.stream:
            cancelled = error is not None and type(error).__name__ == "CancelledError"
            how = RlInferenceStreamEndedValues.CANCELLED if cancelled else ended
            if how is not None:
                values[attributes.RL_INFERENCE_STREAM_ENDED] = how
        if self._describes:
            self.answer.add_attributes(values)
        if self._first_chunk is not None and (self.owned or self._emits_metrics):
            values[attributes.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = self._first_chunk
        if self._describes and not self.owned:
            values = {**self._request.labels, **self._request.values, **values}
        return values

    def owner_ends(self) -> bool:
        """Add to a span of another instrumentor what is known, if the program has dropped the answer.

        The call itself ends later, outside of the garbage collector, and the span does not wait.
        """
        if self._dropped is None:
            return False
        if self.span.is_recording():
            open_spans.add(self.span, self._span_values(None, RlInferenceStreamEndedValues.ABANDONED))
        return True

    def _measure(self, duration: float, kind: str | None) -> None:
        context = self._context or trace_api.set_span_in_context(self.span)
        labels, answer = self._request.labels, self.answer
        measurements.add(
            measurements.CallMeasurements(
                self._scope, labels, duration, *answer.tokens, self._first_chunk, kind, context, answer.times
            )
        )


def _after_fork_in_child() -> None:
    """Leave the calls of the parent to the parent."""
    global _process
    _process = object()


lifecycle.after_fork_in_child(_after_fork_in_child)
