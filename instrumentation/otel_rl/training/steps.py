"""Step traces: one trace per training iteration in which all ranks meet without talking to each other.

Trace id and root span id are a hash of the key that the ranks share (run id and attempt), of the loop, of the
iteration, and of how often the numbering of the loop began anew. Every rank sees these alike. Rank 0 emits the root
``rl.loop``; every rank emits ``rl.rank.step`` below it and its phases below that. Each rank asks its own sampler for
the (synthetic) root, so a ratio sampler decides alike everywhere. A worker without a rank shares no step: its
``rl.rank.step`` begins a trace of its own, linked to the run.

A :class:`Loop` is one sequence of steps: a call of ``train()``, a loop of the program's own, or steps that are guessed.
Several loops can have a step open at once. :func:`where` answers which step a caller is in.
"""

from __future__ import annotations

import sys
from collections import deque
from contextvars import ContextVar
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet, ref

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import Context, create_key, get_current, get_value, set_value
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops, ids, lifecycle, run_span, sampling
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope, enabled
from otel_rl.training import step_sampling
from otel_rl.training.durations import NOTHING, PhaseDurations
from otel_rl.training.step_subscribers import StepSubscribers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextvars import Token

    from opentelemetry.trace import Span

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.progress import CallTotals


#: Where a context holds its loop.
LOOP = create_key("otel_rl.loop")
#: Called with a step that has been opened, before anything of it runs: baselines for deltas.
openers: StepSubscribers[Callable[[Step], None]] = StepSubscribers()
#: Called with a step just before its rank span ends.
contributors: StepSubscribers[Callable[[Step], None]] = StepSubscribers()
#: Called with a step, its length in seconds and its end in ns since the epoch when the step and its phases have been
#: recorded, mostly on an I/O thread.
listeners: StepSubscribers[Callable[[Step, float, int], None]] = StepSubscribers()
_BEGIN, _FINISH = guard("steps.begin"), guard("steps.finish")
_OPENER = guard("steps.opener")
_CONTRIBUTOR = guard("steps.contributor")


def _tell(callbacks: Iterable[Callable[[Step], None]], step: Step, site: guard) -> None:
    # One of them may add others, which begin with the next step.
    for callback in tuple(callbacks):
        try:
            callback(step)
        except Exception as ours:  # noqa: BLE001, PERF203 - counted
            site.handle(ours)


class Step(PhaseDurations):
    """One open iteration on this rank."""

    # What most steps do not change is of the class: one is made on the program's thread.
    root: Span = INVALID_SPAN
    rank_span: Span = INVALID_SPAN
    trace_id = 0
    is_open = True
    #: False where the process ends in it.
    is_completed = True
    #: ``error.type`` of what it failed with.
    error: str | None = None
    #: Its end in ns since the epoch.
    end_time: int | None = None
    #: Why its step and phase spans are left out unless they fail, such as that it is not this rank's turn.
    thinned = ""
    #: Seconds of the wait for its batch that belong to neither this step nor the one before.
    waited = 0.0
    #: What its calls of inference engines add up to, by the names of attributes; known when it has ended.
    engine: Mapping[str, int] = MappingProxyType({})
    #: The calls of the process up to its end, by kind and name, where the health rules ask for them.
    called: Mapping[tuple[str, str], CallTotals] = MappingProxyType({})
    #: Seconds of garbage collections and of compilations in this process when it began, see ``step_pauses``.
    paused_before: tuple[float, float] | None = None
    _parent = NOTHING
    _token: Token[Context] | None = None
    #: Calls that record parts of its phases, until an I/O thread makes them; whether that is already scheduled.
    _recordings: deque[Callable[[], None]] | None = None
    _posted = False
    _flight: Handle | None = None

    def __init__(self, iteration: int, scope: Scope, loop: Loop, begins: Moment) -> None:
        super().__init__()
        self.iteration = iteration
        self.scope = scope
        self.loop = loop
        self.restarts = loop.restarts
        self.started = begins.counter
        #: It begins where the step before it has ended, though it may be opened later.
        self.follows = begins is loop.ended
        self._start_time = begins.wall
        self._spans: dict[str, int] = {}
        #: By the scope that gave them, the values of its own that the program gave this step, see ``scalars``.
        self.values: dict[Scope, dict[str, float]] = {}
        self._forks = lifecycle.forks

    @property
    def is_own(self) -> bool:
        """False in a forked child: the process above ends it."""
        return self._forks == lifecycle.forks

    @property
    def span_context(self) -> SpanContext:
        """The context of the step's span on this rank: the rank's own, or the root where it is not the rank's turn."""
        return trace_api.get_current_span(self.context).get_span_context()

    @property
    def spans_taken(self) -> int:
        """How many phases and parts have asked for a span."""
        return sum(tuple(self._spans.values()))

    @property
    def takes_values(self) -> bool:
        """Whether the span of this rank takes values and events."""
        return self.rank_span.is_recording()

    def describe(self, values: Mapping[str, Any]) -> None:
        """Put ``values`` on the span of this rank."""
        self.rank_span.set_attributes(values)

    def note(self, event: str, values: Mapping[str, Any], timestamp: int) -> None:
        """Put an event on the span of this rank; ``timestamp`` in ns since the epoch."""
        self.rank_span.add_event(event, values, timestamp)

    def take_span(self, kind: str, limit: int) -> bool:
        """Return whether this is among the first ``limit`` spans of ``kind`` in this step."""
        number = self._spans[kind] = self._spans.get(kind, 0) + 1
        return number <= limit

    def post(self, recording: Callable[[], None]) -> None:
        """Have an I/O thread call ``recording``; recordings of this step that wait together are one post."""
        recordings = self._recordings
        if recordings is None:
            # In one go: another thread may do the same.
            recordings = vars(self).setdefault("_recordings", deque())
        recordings.append(recording)
        if not self._posted or not self.is_open:
            self._posted = True
            if not deferral.post(Signal.TRACES, self._record_posts):
                self._posted = False

    def open(self, waiting_since: Moment | None = None) -> None:
        """Start the spans and make the rank's span current in this thread.

        The root begins with the wait for the batch, where there was one.
        """
        if not step_sampling.has_its_turn(process_identity.current(), self.iteration):
            self.thinned = step_sampling.RANK_TURN
        self.begin_spans(waiting_since)
        if self.loop.is_current:
            self._token = attach(self.context)
        self._begin_flight()
        _tell(openers.callbacks, self, _OPENER)
        if waiting_since is not None:
            self.waited = self.started - waiting_since.counter
            deferral.post(Signal.TRACES, lambda: self._record_wait(waiting_since))

    def _begin_flight(self) -> None:
        loop = self.loop
        # In one go: two threads may share a loop.
        before = vars(loop).pop("flight", None)
        self._flight = flight.begin_again(before, self.iteration) or flight.begin(
            layout.STEP, loop.name or "", self.iteration, loop=loop.number
        )

    def begin_spans(self, waiting_since: Moment | None) -> None:
        """Start the spans of the step, and make the context that what belongs to it has."""
        identity = process_identity.current()
        root = self._open_root(identity, waiting_since.wall if waiting_since else self._start_time)
        self._parent = trace_api.set_span_in_context(root, Context()) if root is not None else Context()
        if self.thinned:
            drops.count(Signal.TRACES, self.thinned)
        else:
            self.rank_span = self._start_rank_span()
        # Below the program's own context: its baggage and values must reach its reward functions as they do without us.
        current: Span = root if self.thinned and root is not None else self.rank_span
        context = set_value(LOOP, self.loop, trace_api.set_span_in_context(current, get_current()))
        context = baggage.set_baggage(attributes.RL_LOOP_ITERATION, str(self.iteration), context)
        context = baggage.set_baggage(attributes.RL_SAMPLING_PRIORITY, str(sampling.KEEP), context)
        if identity.id is not None:
            context = baggage.set_baggage(attributes.RL_RUN_ID, identity.id, context)
        self.context = context
        self.trace_id = current.get_span_context().trace_id

    def abandon(self) -> None:
        """Undo an opening that has failed, e.g. by a signal handler: it is neither current nor in the ring."""
        self.is_open = False
        record, self._flight = self._flight, None
        flight.end(record, True)
        detach(self._token)

    def discard(self) -> None:
        """End it as if it had not begun: nothing of it is recorded."""
        _tell(contributors.callbacks, self, _CONTRIBUTOR)
        self.abandon()

    def _open_root(self, identity: process_identity.ProcessIdentity, start_time: int) -> Span | None:
        """Start or imitate the root of the trace that the ranks share; None in a process that shares none."""
        if identity.steps_key is None:
            return None
        values = {
            attributes.RL_LOOP_ITERATION: self.iteration,
            attributes.RL_LOOP_NAME: self.loop.name,
            attributes.RL_LOOP_SOURCE: self.loop.source,
            attributes.RL_RUN_ID: identity.id,
            attributes.RL_RUN_ATTEMPT: identity.attempt,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP,
            **self.loop.attributes,
        }
        root_ids = self.loop.root_ids(self.iteration, self.restarts)
        sampled = step_sampling.root_is_sampled(root_ids.trace_id, values)
        flags = run_span.SAMPLED if sampled else TraceFlags(TraceFlags.RANDOM_TRACE_ID)
        if identity.emits_step_roots:
            self.root = self._start_root(root_ids, values, flags, start_time)
            # With a generator that is not ours the ids differ: the children then follow the root that really exists.
            if self.root.get_span_context().is_valid:
                return self.root
        return NonRecordingSpan(SpanContext(*root_ids, is_remote=True, trace_flags=flags))

    def _start_root(self, root_ids: ids.SpanIds, values: Mapping[str, Any], flags: TraceFlags, start_time: int) -> Span:
        links = [run_span.link()]
        own = SpanContext(*root_ids, is_remote=False, trace_flags=flags)
        return self.scope.start_posted_span(spans.RL_LOOP, values, Context(), links, own=own, start_time=start_time)

    def _start_rank_span(self) -> Span:
        shared = trace_api.get_current_span(self._parent).get_span_context().is_valid
        values = {
            attributes.RL_LOOP_ITERATION: self.iteration,
            attributes.RL_LOOP_NAME: self.loop.name,
            attributes.RL_LOOP_SOURCE: self.loop.source,
            attributes.RL_RANK: process_identity.current().rank,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP,
        }
        links = () if shared else [run_span.link()]
        start_time = self._start_time
        return self.scope.start_posted_span(spans.RL_RANK_STEP, values, self._parent, links, start_time=start_time)

    def _record_wait(self, since: Moment) -> None:
        """Record the wait before the rank's span as a child of the root."""
        values = {
            attributes.RL_PHASE: attributes.RlPhaseValues.DATA_WAIT,
            attributes.RL_LOOP_ITERATION: self.iteration,
        }
        if not self.thinned:
            context = trace_api.set_span_in_context(trace_api.get_current_span(self._parent), self.context)
            span = self.scope.start_span(spans.RL_DATA_WAIT, attributes=values, context=context, start_time=since.wall)
            self.scope.end_span(span, None, self._start_time)
        labels = {attributes.RL_PHASE: attributes.RlPhaseValues.DATA_WAIT}
        self.scope.record(metrics.RL_PHASE_DURATION, self.waited, labels, self.context)

    def close(self, error: BaseException | str | None, at: Moment | None = None) -> None:
        """Let contributors add to the rank's span, record the durations, end the spans, ``at`` a moment or now."""
        if self.thinned and error is not None:
            self.rank_span = self._start_rank_span()
        _tell(contributors.callbacks, self, _CONTRIBUTOR)
        self.is_open = False
        record, self._flight = self._flight, None
        if record is not None:
            flight.end(record, error is not None or not self.is_completed)
            self.loop.flight = record
        ended = at or deferral.now()
        self.end_time = ended.wall
        if self._token is not None:
            detach(self._token)
        kind = self.error = attribute_values.error_type(error) if isinstance(error, BaseException) else error
        deferral.post(Signal.TRACES, partial(self._record, ended.counter - self.started, kind, ended.wall))

    def _record(self, seconds: float, error: str | None, end_time: int) -> None:
        self._record_posts()
        self.record_durations()
        self.scope.record(metrics.RL_LOOP_DURATION, seconds, context=self.context)
        sampling.keep_if_slow(self.rank_span, seconds, spans.RL_RANK_STEP.type)
        self.scope.end_span(self.rank_span, error, end_time)
        self.scope.end_span(self.root, error, end_time)
        for listener in tuple(listeners.callbacks):
            with guard("steps.listener"):
                listener(self, seconds, end_time)

    def _record_posts(self) -> None:
        # First: what comes from here on is posted anew.
        self._posted = False
        while self._recordings:
            with guard("steps.record"):
                self._recordings.popleft()()


class Loop:
    """One sequence of steps; at most one of them is open.

    ``name`` identifies a named loop; others are identified by the order of their first steps, which every rank sees
    alike. ``attributes`` go onto the root span of each step.
    """

    #: True for the loop of a trainer, which logs the rewards of its steps itself.
    logs_rewards = False
    #: Who says where its steps begin and end.
    source: str = LoopSource.GIVEN
    #: What its steps are.
    step_class: type[Step] = Step
    #: Its step is the current span of what runs in the thread or task that opens it.
    is_current = True
    #: It ends as soon as a trainer or the program itself speaks of steps, and its open step is taken back.
    gives_way = False
    #: Of the flight recorder, from the last step, which has ended: the next one begins it again.
    flight: Handle | None = None
    #: In a forked child: the step that was open at the fork. It is the parent's.
    forked_in: Step | None = None

    def __init__(self, name: str | None = None, attributes: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.attributes: Mapping[str, Any] = attributes or {}
        self.step: Step | None = None
        #: When its last step has ended, where that was told.
        self.ended: Moment | None = None
        #: The iteration begun last, and how often one began that was not higher than the one before it.
        self.last, self.restarts = -1, 0
        #: Which of the loops without a name it is, in the order of their first steps; 0 for one with a name.
        self.number = 0
        #: Its steps follow each other without a caller in between: while none is open, no other loop stands in.
        self.running = False

    @property
    def key(self) -> tuple[object, ...]:
        """What sets its step traces apart from those of other loops; nothing for the first loop of the process."""
        which = self.name if self.name is not None else self.number
        return ("loop", which) if which != 0 else ()

    def root_ids(self, iteration: int, restarts: int) -> ids.SpanIds:
        """Return the ids of the root that all ranks derive for a step."""
        key = process_identity.current().steps_key
        return ids.derive(key, *self.key, iteration, *((restarts,) if restarts else ()))

    def begin(
        self, iteration: int, scope: Scope, at: Moment | None = None, waiting_since: Moment | None = None
    ) -> Step | None:
        """Open step ``iteration`` (the trainer's global step after increment); closes the one that is open.

        The wait for the batch, from ``waiting_since`` on, belongs to neither of the two steps.
        """
        try:
            return self._begin(iteration, scope, at, waiting_since)
        except Exception as ours:  # noqa: BLE001 - counted
            _BEGIN.handle(ours)
            return None

    def _begin(self, iteration: int, scope: Scope, at: Moment | None, waiting_since: Moment | None) -> Step | None:
        global _last_begun, _last_iteration
        if not self.gives_way:
            stop_guessing()
            process_identity.begin_steps()
        if self.step is not None:
            self.finish(at=waiting_since or at)
        if iteration <= self.last:
            self.restarts += 1
        elif self.last < 0 and self.source != LoopSource.GUESSED:
            self.number = next(_numbers) if self.name is None else 0
        self.last = _last_iteration = iteration
        _failures.clear()
        _last_begun = ref(self)
        _begun.add(self)
        if not enabled():
            return None
        step = self.step_class(iteration, scope, self, at or deferral.now())
        try:
            step.open(waiting_since)
        except BaseException:
            step.abandon()
            raise
        self.step = step
        if self not in _open:
            _open.append(self)
        lifecycle.before_shutdown(finish)
        if self.is_current:
            deferral.post(
                Signal.METRICS, lambda: scope.record(metrics.RL_LOOP_CURRENT, iteration, context=step.context)
            )
        return step

    def finish(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Close the open step, if there is one; ``at`` says when it ended, unless now."""
        step, self.step = self.step, None
        if step is not None:
            self.ended = at
            note_failure(error, step)
            if self in _open:
                _open.remove(self)
            if not step.is_own:
                return
            try:
                step.close(error, at)
            except Exception as ours:  # noqa: BLE001 - counted
                _FINISH.handle(ours)

    def discard(self) -> None:
        """Take back the open step of a loop that counts from 1, if there is one: it was no step."""
        global _last_iteration
        step, self.step = self.step, None
        self.ended = None
        if self in _open:
            _open.remove(self)
        if step is None:
            return
        self.last = step.iteration - 1 or -1
        if _last_iteration == step.iteration:
            _last_iteration = self.last if self.last > 0 else None
        if step.is_own:
            with guard("steps.discard"):
                step.discard()

    def run_context(self) -> Context:
        """Mark the loop as running and return the current context with it: the loop of all that runs in there."""
        self.running = True
        return set_value(LOOP, self, get_current())

    def retire(self) -> None:
        """Expect no more steps: threads without the context of a loop are in none of its steps."""
        self.running = False
        _begun.discard(self)

    def forget(self) -> None:
        """Drop the step in a forked child: it is the parent's, and its spans must not end twice."""
        self.forked_in, self.step = self.step, None
        self.running = False


#: Loops that have a step open, the one begun last at the end.
_open: list[Loop] = []
#: Loops of the program itself, opened through the producer API; more than one where several were open at once.
_programs: list[Loop] = []
_named: dict[str, Loop] = {}
#: Most named loops whose numbering is remembered.
_MAXIMUM_NAMES = 100
_numbers = count()
_mine: ContextVar[Loop | None] = ContextVar("otel_rl_program_loop", default=None)
_last_iteration: int | None = None
#: The loop of which that was.
_last_begun: ref[Loop] | None = None
#: Loops of this process that have had a step and may have another. A call of ``train()`` that has returned may not.
_begun: WeakSet[Loop] = WeakSet()
#: False from the first step on that the program or a trainer has opened in this process: none is guessed any more.
may_guess = True


def loop_for_next_step(name: str | None = None) -> Loop:
    """Return the loop of the program's next step in this thread or task: that of its last step, or a free one."""
    if name is not None:
        return _named.setdefault(name, Loop(name)) if len(_named) < _MAXIMUM_NAMES else _named.get(name, Loop(name))
    loop = _mine.get()
    if loop is None or loop.step is not None:
        loop = next((free for free in _programs if free.step is None), None)
    if loop is None:
        loop = Loop()
        _programs.append(loop)
    _mine.set(loop)
    return loop


def begin(iteration: int, scope: Scope, loop: Loop | None = None) -> Step | None:
    """Open step ``iteration`` of ``loop``, by default of the program's first one; see :meth:`Loop.begin`."""
    if loop is None:
        if not _programs:
            _programs.append(Loop())
        loop = _programs[0]
    return loop.begin(iteration, scope)


def stop_guessing() -> None:
    """Guess no step of this process from now on: who knows them speaks, which opens the first one or is about to.

    A guessed step that is open is taken back. :meth:`Loop.begin` calls this for every loop that gives way to none.
    """
    global may_guess
    if may_guess:
        may_guess = False
        for loop in [loop for loop in _open if loop.gives_way]:
            loop.discard()
            loop.retire()


def finish() -> None:
    """Close what is open when the process ends: a step that nothing has ended is not completed."""
    # Each is taken out first: two threads that share a loop may have put it in twice, and this must end.
    while _open:
        loop = _open.pop()
        if loop.gives_way:
            # What follows the last step looks like the beginning of another one.
            loop.discard()
            continue
        step = loop.step
        if step is not None:
            step.is_completed = False
        loop.finish()


class StepPosition:
    """Where in the training a caller is: ``step`` is the open step that it most likely belongs to.

    ``loop_of_context`` is the loop that its context holds, whether or not that has a step open.
    """

    __slots__ = ("loop_of_context", "step")

    def __init__(self, step: Step | None, loop_of_context: Loop | None) -> None:
        self.step = step
        self.loop_of_context = loop_of_context

    @property
    def loop(self) -> Loop | None:
        """The caller's loop where that is certain: the one of its context, or the only one of the process."""
        return self.loop_of_context or _only_loop()

    @property
    def step_of_context(self) -> Step | None:
        """The open step of the caller's context; None where the context holds none."""
        return self.loop_of_context.step if self.loop_of_context is not None else None

    @property
    def certain_step(self) -> Step | None:
        """The open step, for what must not go to another loop's; None where several loops could own the caller."""
        return self.step if self.step is not None and self.step.loop is self.loop else None

    @property
    def iteration(self) -> int | None:
        """The iteration that the caller's loop began last; of any loop where its own is not known."""
        loop = self.loop
        return _last_iteration if loop is None or loop.last < 0 else loop.last


#: Of a caller without the context of a loop, while no step is open: the usual case in a process without steps.
_NOWHERE = StepPosition(None, None)


def where() -> StepPosition:
    """Return which step and loop the caller is in, as of this moment.

    The step is that of the loop in the caller's context. Without one, or between two steps of a loop of the program, it
    is the step begun last.
    """
    loop = get_value(LOOP)
    if not isinstance(loop, Loop):
        return StepPosition(_open[-1].step, None) if _open else _NOWHERE
    step = loop.step
    if step is None and not loop.running and _open:
        step = _open[-1].step
    return StepPosition(step, loop)


def _only_loop() -> Loop | None:
    """Return the loop of a process with one, also after the last call of ``train()``; None where there are several."""
    if len(_begun) > 1:
        return None
    only = next(iter(_begun), None)
    return only if only is not None or _last_begun is None else _last_begun()


def loop_in(context: Context) -> Loop | None:
    """Return the loop that ``context`` holds."""
    loop = context.get(LOOP)
    return loop if isinstance(loop, Loop) else None


def last_iteration() -> int | None:
    """Return the iteration begun last in this process."""
    return _last_iteration


def is_missing() -> bool:
    """Return whether the program has made an optimizer of torch, and no step was opened; imports and patches nothing.

    torch wraps ``step`` of a class of optimizers when the first of them is made, and marks it as ``hooked``
    (torch 2.4 to 2.13, ``Optimizer._patch_step_function``).
    """
    optimizers = sys.modules.get("torch.optim.optimizer")
    return _last_iteration is None and optimizers is not None and _was_made(optimizers.Optimizer)


def _was_made(optimizer: type) -> bool:
    own = getattr(vars(optimizer).get("step"), "hooked", False)
    return bool(own) or any(map(_was_made, optimizer.__subclasses__()))


class FailedPart(NamedTuple):
    """A step, and the innermost phase of it, that an exception went through."""

    iteration: int | None
    phase: str | None


def note_failure(error: BaseException | str | None, step: Step | None, phase: str | None = None) -> None:
    """Remember that ``error`` ended the step or a phase in it, until the next step begins.

    Keeps no reference: the frames of an exception hold the program's memory.
    """
    if not isinstance(error, BaseException):
        return
    before = _failures.get(id(error))
    if before is None and len(_failures) >= _MAXIMUM_FAILURES:
        _failures.clear()
    # The innermost comes first.
    iteration = step.iteration if step is not None else before.iteration if before is not None else None
    _failures[id(error)] = FailedPart(iteration, before.phase if before is not None else phase)


def failed_part(chain: Iterable[BaseException]) -> FailedPart | None:
    """Return what the first exception of ``chain`` that ended a step or phase has ended."""
    return next((_failures[id(error)] for error in chain if id(error) in _failures), None)


#: By the id of the exception. Many that the program catches are forgotten.
_failures: dict[int, FailedPart] = {}
_MAXIMUM_FAILURES = 64


def _forget() -> None:
    global may_guess
    may_guess = True
    for loop in _open:
        loop.forget()
    _open.clear()
    _begun.clear()
    _failures.clear()


lifecycle.after_fork_in_child(_forget)
