"""Step traces: one trace per training iteration in which all ranks meet without talking to each other.

Trace id and root span id are a hash of the key that the ranks share (run id and attempt), of the iteration, and of how
often the numbering began anew (a second trainer, a second ``train()``), which every rank sees alike. Rank 0 emits the
root ``rl.loop``; every rank emits ``rl.rank.step`` below it and its phases below that. Each rank asks its own sampler
for the (synthetic) root, so a ratio sampler decides alike everywhere. A worker without a rank shares no step: its
``rl.rank.step`` begins a trace of its own, linked to the run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import Context, get_current
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from otel_rl import clock
from otel_rl.internal_errors import guard
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops, ids, lifecycle, run_span, sampling
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope, enabled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

    from opentelemetry.trace import Span

#: Up to this many ranks every rank emits its step and phases at every step. In larger jobs rank 0 does, and the others
#: take turns: each at every tenth step, a tenth of them at each. Metrics, errors and the program's own spans come from
#: all ranks.
ALL_RANKS_LIMIT = 64
OTHER_RANKS_INTERVAL = 10

#: Reason under which the spans are counted that a rank leaves out because it is not its turn.
THINNED = "rank_turn"

_openers: list[Callable[[Step], None]] = []
_contributors: list[Callable[[Step], None]] = []
_current: Step | None = None
#: The iteration begun last, and how often one began that was not higher than the one before it.
_last, _restarts = -1, 0


class Step:
    """One open iteration on this rank."""

    def __init__(self, iteration: int, scope: Scope, restarts: int = 0) -> None:
        self.iteration = iteration
        self.restarts = restarts
        self.scope = scope
        self.started = time.perf_counter()
        self.root: Span = INVALID_SPAN
        self.rank_span: Span = INVALID_SPAN
        self.context = Context()
        #: It is not this rank's turn: its step and phase spans are left out unless they fail.
        self.thinned = False
        self._parent = Context()
        self._start_time = clock.now()
        self._token: Token[Context] | None = None

    @property
    def span_context(self) -> SpanContext:
        """Of the span that stands for this step here: the rank's own, or the root where it is not the rank's turn."""
        return trace_api.get_current_span(self.context).get_span_context()

    def open(self) -> None:
        """Start the spans and make the rank's span current in this thread."""
        identity = process_identity.current()
        self.thinned = not _has_its_turn(identity, self.iteration)
        root = self._open_root(identity)
        self._parent = trace_api.set_span_in_context(root, Context()) if root is not None else Context()
        if self.thinned:
            drops.count(Signal.TRACES, THINNED)
        else:
            self.rank_span = self._start_rank_span()
        # Below the program's own context: its baggage and values must reach its reward functions as they do without us.
        current = root if self.thinned and root is not None else self.rank_span
        context = trace_api.set_span_in_context(current, get_current())
        context = baggage.set_baggage(attributes.RL_LOOP_ITERATION, str(self.iteration), context)
        context = baggage.set_baggage(attributes.RL_SAMPLING_PRIORITY, str(sampling.KEEP), context)
        if identity.id is not None:
            context = baggage.set_baggage(attributes.RL_RUN_ID, identity.id, context)
        self.context = context
        self._token = attach(context)
        for opener in _openers:
            with guard("steps.opener"):
                opener(self)

    def _open_root(self, identity: process_identity.Run) -> Span | None:
        """Start or imitate the root of the trace that the ranks share; None in a process that shares none."""
        if identity.steps_key is None:
            return None
        values = {
            attributes.RL_LOOP_ITERATION: self.iteration,
            attributes.RL_RUN_ID: identity.id,
            attributes.RL_RUN_ATTEMPT: identity.attempt,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP,
        }
        again = (self.restarts,) if self.restarts else ()
        root_ids = ids.derive(identity.steps_key, self.iteration, *again)
        sampled = _root_is_sampled(root_ids.trace_id, values)
        flags = run_span.SAMPLED if sampled else TraceFlags(TraceFlags.RANDOM_TRACE_ID)
        if identity.emits_step_roots:
            self.root = self._start_root(root_ids, values, flags)
            # With a generator that is not ours the ids differ: the children then follow the root that really exists.
            if self.root.get_span_context().is_valid:
                return self.root
        return NonRecordingSpan(SpanContext(*root_ids, is_remote=True, trace_flags=flags))

    def _start_root(self, root_ids: ids.SpanIds, values: Mapping[str, Any], flags: TraceFlags) -> Span:
        links = [run_span.link()]
        if deferral.posting() and flags.sampled:
            own = SpanContext(*root_ids, is_remote=False, trace_flags=flags)
            return self.scope.start_posted_span(spans.RL_LOOP, values, Context(), links, own=own)
        with ids.pinned(root_ids):
            return self.scope.start_span(spans.RL_LOOP, attributes=values, context=Context(), links=links)

    def _start_rank_span(self, start_time: int | None = None) -> Span:
        shared = trace_api.get_current_span(self._parent).get_span_context().is_valid
        values = {
            attributes.RL_LOOP_ITERATION: self.iteration,
            attributes.RL_RANK: process_identity.current().rank,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP,
        }
        links = () if shared else [run_span.link()]
        if deferral.posting():
            return self.scope.start_posted_span(spans.RL_RANK_STEP, values, self._parent, links, start_time=start_time)
        return self.scope.start_span(
            spans.RL_RANK_STEP, attributes=values, context=self._parent, links=links, start_time=start_time
        )

    def close(self, error: BaseException | str | None) -> None:
        """Let contributors add to the rank's span, record the duration, end the spans."""
        if self.thinned and error is not None:
            self.rank_span = self._start_rank_span(self._start_time)
        for contributor in _contributors:
            with guard("steps.contributor"):
                contributor(self)
        ended = deferral.now()
        if self._token is not None:
            detach(self._token)
        kind = attribute_values.error_type(error) if isinstance(error, BaseException) else error
        deferral.post(Signal.TRACES, lambda: self._record(ended.counter - self.started, kind, ended.wall))

    def _record(self, seconds: float, error: str | None, end_time: int) -> None:
        self.scope.record(metrics.RL_LOOP_DURATION, seconds, context=self.context)
        sampling.keep_if_slow(self.rank_span, seconds, spans.RL_RANK_STEP.type)
        self.scope.end_span(self.rank_span, error, end_time)
        self.scope.end_span(self.root, error, end_time)


def _has_its_turn(identity: process_identity.Run, iteration: int) -> bool:
    rank = identity.rank
    if not rank or identity.steps_key is None or (identity.world_size or 1) <= ALL_RANKS_LIMIT:
        return True
    return (iteration + rank) % OTHER_RANKS_INTERVAL == 0


def _root_is_sampled(trace_id: int, values: Mapping[str, Any]) -> bool:
    sampler = getattr(trace_api.get_tracer_provider(), "sampler", None)
    if sampler is None:
        return True
    # In an empty context, as rank 0 has it: a span that happens to be open here must not decide.
    result = sampler.should_sample(
        Context(), trace_id, spans.RL_LOOP.type, SpanKind.INTERNAL, values, [run_span.link()]
    )
    return bool(result.decision.is_sampled())


def add_opener(opener: Callable[[Step], None]) -> None:
    """Call ``opener(step)`` when a step has been opened, before anything of it runs (baselines for deltas)."""
    if opener not in _openers:
        _openers.append(opener)


def remove_opener(opener: Callable[[Step], None]) -> None:
    """Undo :func:`add_opener`."""
    if opener in _openers:
        _openers.remove(opener)


def add_contributor(contributor: Callable[[Step], None]) -> None:
    """Call ``contributor(step)`` just before a step's rank span ends."""
    if contributor not in _contributors:
        _contributors.append(contributor)


def remove_contributor(contributor: Callable[[Step], None]) -> None:
    """Undo :func:`add_contributor`."""
    if contributor in _contributors:
        _contributors.remove(contributor)


def current() -> Step | None:
    """The open step of this process."""
    return _current


def last_iteration() -> int | None:
    """Return the iteration begun last in this process."""
    return None if _last < 0 else _last


def begin(iteration: int, scope: Scope) -> Step | None:
    """Open step ``iteration`` (the trainer's global step after increment); closes the one that is open."""
    global _current, _last, _restarts
    with guard("steps.begin"):
        finish()
        if iteration <= _last:
            _restarts += 1
        _last = iteration
        if not enabled():
            return None
        step = Step(iteration, scope, _restarts)
        step.open()
        _current = step
        lifecycle.before_shutdown(finish)
        deferral.post(Signal.METRICS, lambda: scope.record(metrics.RL_LOOP_CURRENT, iteration, context=step.context))
        return step
    return None


def finish(error: BaseException | str | None = None) -> None:
    """Close the open step, if there is one."""
    global _current
    step, _current = _current, None
    if step is not None:
        with guard("steps.finish"):
            step.close(error)


def _forget() -> None:
    global _current
    _current = None


# The step belongs to the parent: a forked child must not end its spans again.
lifecycle.after_fork_in_child(_forget)
