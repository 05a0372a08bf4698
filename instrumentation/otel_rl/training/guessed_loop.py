"""The loop of the guessed steps, and a step whose spans begin when somebody asks for them.

The work that a step takes on the program's thread is not expected by anybody who has not marked one. Nothing of a
guessed step is current, so its ids and spans are needed by what is recorded inside of it only, if there is such, and by
the I/O thread that records its end.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current, set_value
from opentelemetry.trace import INVALID_SPAN, get_current_span

from otel_rl.core.guard import guard
from otel_rl.core.threads import allocate_lock
from otel_rl.process import process_identity
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.training import caller_steps, guessed_records, step_sampling, steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.trace import Span

    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.guessed_records import Seen

_RECORD = guard("guessed_steps.record")
#: What a step has that changes something; and of short ones that do not, so many have values.
NO_ZEROS, VALUES_INTERVAL = (False, 0.0), 16


class _OfSpans:
    """An attribute of a step that :meth:`otel_rl.training.steps.Step.begin_spans` sets, when it is read first."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, step: GuessedStep, _: type) -> Any:
        return step.of_spans(self._name)


class GuessedStep(steps.Step):
    """A step without spans until one of the attributes that need them is read."""

    loop: UnmarkedLoop
    root: Any = _OfSpans()
    rank_span: Any = _OfSpans()
    context: Any = _OfSpans()
    trace_id: Any = _OfSpans()
    #: What was seen of it, see :mod:`otel_rl.training.guessed_records`.
    seen: Seen | None = None
    #: What its span gets; most steps get nothing.
    _values: Mapping[str, Any] = MappingProxyType({})
    _notes: Sequence[tuple[str, Mapping[str, Any], int]] = ()

    def __init__(self, iteration: int, scope: Scope, loop: steps.Loop, begins: Moment) -> None:
        super().__init__(iteration, scope, loop, begins)
        self._beginning = allocate_lock()

    def of_spans(self, name: str) -> Any:
        """Begin the spans, unless another thread has, and return one of the attributes that this sets."""
        with self._beginning:
            if name not in vars(self):
                self.root = self.rank_span = INVALID_SPAN
                super().begin_spans(None)
        return vars(self)[name]

    def begin_spans(self, waiting_since: Moment | None) -> None:
        """Leave it to whoever reads one of them."""

    @property
    def takes_values(self) -> bool:
        """Whether its span is recorded."""
        return not self.thinned

    def describe(self, values: Mapping[str, Any]) -> None:
        """Keep ``values`` for the span of this rank."""
        # In one go: another thread may be the first too.
        vars(self).setdefault("_values", {}).update(values)

    def note(self, event: str, values: Mapping[str, Any], timestamp: int) -> None:
        """Keep an event for the span of this rank."""
        vars(self).setdefault("_notes", []).append((event, values, timestamp))

    def _open_root(self, identity: process_identity.ProcessIdentity, start_time: int) -> Span | None:
        if self.thinned == step_sampling.SHORT_STEP:
            return None
        return super()._open_root(identity, start_time)

    def _record(self, seconds: float, error: str | None, end_time: int) -> None:
        is_chosen = self.loop.chooses(self.iteration, seconds) or error is not None
        with self._beginning:
            # One in which something has been recorded has begun its spans.
            if not is_chosen and "context" not in vars(self):
                self.thinned = self.thinned or step_sampling.SHORT_STEP
        if self.seen is not None and (samples := sum(loader.samples for loader in self.seen.loaders.values())):
            self.describe({names.RL_LOOP_SAMPLES: samples})
        self.rank_span.set_attributes(self._values)
        for note in self._notes:
            self.rank_span.add_event(*note)
        self.scope.record(metrics.RL_LOOP_CURRENT, self.iteration, context=self.context)
        if self.seen is not None:
            with _RECORD:
                zeros = self.loop.needs_values(self.iteration, self.seen.zeros)
                guessed_records.record(self.scope, self, self.seen, seconds, end_time, changes_nothing=zeros)
        super()._record(seconds, error, end_time)


class UnmarkedLoop(steps.Loop):
    """The steps of a process that neither the program nor a trainer marks, which give way to such."""

    is_current = False
    gives_way = True
    step_class = GuessedStep
    #: What made the last step change nothing, see :mod:`otel_rl.training.guessed_records`, and since which one.
    _zeros, _since = NO_ZEROS, 0

    def chooses(self, iteration: int, seconds: float) -> bool:
        """Return whether the step ``iteration``, which took ``seconds``, has spans and values."""
        return True

    def needs_values(self, iteration: int, zeros: tuple[bool, float]) -> bool:
        """Return whether a step has values however short it is: those that change nothing, first all and then some."""
        if zeros != self._zeros:
            self._zeros, self._since = zeros, iteration
            return True
        is_chosen = iteration - self._since < step_sampling.FIRST_STEPS or iteration % VALUES_INTERVAL == 0
        return zeros != NO_ZEROS and is_chosen


class CalledStep(GuessedStep):
    """An update of parameters in a call of another process: a part of that process' step, and no step of its own."""

    def __init__(self, iteration: int, scope: Scope, loop: steps.Loop, begins: Moment) -> None:
        super().__init__(iteration, scope, loop, begins)
        self._caller = get_current()

    def of_spans(self, name: str) -> Any:
        """Take the context of the call, which is what all of it belongs to."""
        span = get_current_span(self._caller)
        vars(self).setdefault("root", INVALID_SPAN)
        vars(self).setdefault("rank_span", INVALID_SPAN)
        vars(self).setdefault("context", set_value(steps.LOOP, self.loop, self._caller))
        vars(self).setdefault("trace_id", span.get_span_context().trace_id)
        return vars(self)[name]

    @property
    def takes_values(self) -> bool:
        """Whether its span is recorded: it has none."""
        return False

    def _record(self, seconds: float, error: str | None, end_time: int) -> None:
        self._record_posts()
        if self.seen is not None:
            with _RECORD:
                guessed_records.record_parts(self.scope, self, self.seen)
        self.record_durations()


class CalledLoop(UnmarkedLoop):
    """The updates of parameters in calls of another process, numbered by its steps."""

    source = LoopSource.KNOWN
    step_class = CalledStep

    def begin(
        self, iteration: int, scope: Scope, at: Moment | None = None, waiting_since: Moment | None = None
    ) -> steps.Step | None:
        """Open an update in the step of the caller, however many there were before."""
        caller = caller_steps.current()
        number = iteration if caller is None else caller.iteration
        # Several updates in one step are no restart.
        self.last = min(self.last, number - 1)
        return super().begin(number, scope, at, waiting_since)


class GuessedLoop(UnmarkedLoop):
    """The guessed steps of a process."""

    source = LoopSource.GUESSED

    def __init__(self) -> None:
        super().__init__()
        self._short_steps = step_sampling.ShortSteps()

    def begin(
        self, iteration: int, scope: Scope, at: Moment | None = None, waiting_since: Moment | None = None
    ) -> steps.Step | None:
        """Open a step. The loop of a worker of Ray is named after it: the driver may have one too."""
        self.name = process_identity.current().worker_name
        return super().begin(iteration, scope, at, waiting_since)

    def chooses(self, iteration: int, seconds: float) -> bool:
        """Choose some of many short steps: recording all of them would slow the program down."""
        return self._short_steps.takes(iteration, seconds)

    @property
    def key(self) -> tuple[object, ...]:
        """That of no loop which is known: those are numbered on every rank as if nothing had been guessed."""
        return ("guessed",)
