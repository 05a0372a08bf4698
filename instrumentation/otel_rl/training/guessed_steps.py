"""Steps of a loop that says nothing of them, guessed from its optimizers, backward passes and data loaders.

The leader is the optimizer with most parameters. A step is its first ``step()`` that ends after a backward pass has
begun since the one before. So one step is counted where parameters move once: with accumulation, with several
optimizers, with closures, where a ``step()`` calls that of its base class, and where a wrapper calls it once per group
of parameters.

A step begins where the one before has ended, or an evaluation since: a data loader that was read to its end without
gradients, or without a backward pass meanwhile. So batches are held apart until a backward pass shows that they are the
step's. It is opened with its first backward pass, since what follows the last step of a program looks like the
beginning of another one until then. It is never current: a span of the program that is open at its end would put it
back afterwards. Its parts are recorded when they have ended, so that an exception leaves none open.

A library that such loops are written with may know more, as DeepSpeed's engine does: it tells when a step has been made
and which number it has (:meth:`GuessedSteps.are_told_by`), and optimizers below it say nothing any more.

As soon as a trainer or the program itself speaks of steps, no more are guessed: see
:func:`otel_rl.training.steps.stop_guessing`.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from otel_rl.semconv import spans
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.training import caller_steps, steps
from otel_rl.training.guessed_batches import MAXIMUM_PARTS, Held
from otel_rl.training.guessed_loop import CalledLoop, GuessedLoop, GuessedStep
from otel_rl.training.guessed_records import Clipping, LoaderSums, Seen
from otel_rl.training.phases import Phase
from otel_rl.training.told_steps import Told, ToldLoop

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.guessed_records import TimedPart
    from otel_rl.training.told_steps import EngineReadings, Readings

#: Most data loaders that are told apart.
_MAXIMUM_LOADERS = 8
#: An optimizer leads when it has made so many steps without one of the leader, which the program may have left behind.
_STEPS_WITHOUT_LEADER = 32
#: So many first backward passes look for an optimizer.
_LOOKS = 3


class _Begun(NamedTuple):
    """An optimizer's step, or an evaluation by a data loader, that has begun: of which object, and when."""

    owner: int
    began: Moment


class GuessedSteps:
    """Guesses the steps of this process from what an instrumentor reports."""

    def __init__(self, scope: Scope, readings: Readings) -> None:
        self._own_scope = self._scope = scope
        self._readings = readings
        lifecycle.after_fork_in_child(self.forget)
        self.forget()

    def forget(self) -> None:
        """Begin anew, also in a forked child, whose steps are its own."""
        self._scope = self._own_scope
        self._loop: steps.Loop = GuessedLoop()
        self._leader = _Leader(self._readings)
        self._told: Told | None = None
        self._looks = 0
        #: Where the next step begins; None before anything of the first one.
        self._begins: Moment | None = None
        #: Backward passes since the leader's last step; the thread of the latest one.
        self._backwards = 0
        self._thread = 0
        #: Since when the outermost backward pass runs, in the present step.
        self._backward: Moment | None = None
        self._forward: Moment | None = None
        self._optimizing: _Begun | None = None
        self._evaluating: _Begun | None = None
        #: The sum over outermost backward passes since the last step; None where it is not the step's.
        self._loss: float | None = None
        #: These passes; all of the program's where no optimizer has moved.
        self.passes = 0
        self._clipping = Clipping()
        #: Of the step that is open, or of the next one.
        self._parts: list[TimedPart] = []
        #: Seconds of the parts beyond those that are kept while no step was open, by the type of their spans.
        self._more: dict[str, float] = {}
        #: By the identity of their data.
        self._held: dict[int, Held] = {}
        #: What the loaders have given since the last step, by the identity of their data.
        self._loaders: dict[int, LoaderSums] = {}

    def stop(self) -> None:
        """Guess no more until another report comes."""
        self._loop.discard()
        self.forget()

    # -- libraries that know the steps -----------------------------------------------------------------------------

    def are_told_by(self, engine: Any, engines: EngineReadings, scope: Scope) -> None:
        """Guess no more: ``engine`` says by :meth:`update_ended` when a step has been made."""
        if self._told is None:
            self.stop()
            self._scope = scope
            self._loop, self._leader = ToldLoop(), _Leader(engines)
            self._told = Told(ref(engine), engines)

    def forward_begins(self) -> None:
        """Note that a forward pass begins; the backward pass ends it."""
        self._forward = deferral.now()

    def update_begins(self, engine: Any) -> None:
        """Note that an engine begins to move its parameters."""
        self._update_begins(engine)

    def update_ended(self, engine: Any) -> None:
        """Note that an engine has made a step."""
        if self._told is not None:
            self.clipped(self._told.engines.gradient_norm(engine))
            self._update_ended(engine, self._told.engines.optimizer(engine))

    def clipped(self, norm: Any, limit: Any = None) -> None:
        """Note the norm of the gradients of the open step before they were clipped, and the limit of the clipping."""
        self._clipping = self.clipping(norm, limit)

    def clipping(self, norm: Any, limit: Any) -> Clipping:
        """Return what is known of a clipping of gradients without waiting for a device."""
        return Clipping(self._number(norm), self._number(limit))

    def _number(self, value: Any) -> float | None:
        return float(value) if isinstance(value, float | int) else self._readings.value(value)

    @property
    def _next_number(self) -> int:
        told = self._told.next_number(self._leader.optimizer) if self._told is not None else None
        return told or max(self._loop.last, 0) + 1

    # -- data loaders ----------------------------------------------------------------------------------------------

    def batch_arrived(self, loader: int, since: Moment, batch: Any, learns: bool, is_first: bool) -> None:
        """Note that a loader, asked ``since``, has given ``batch``.

        ``learns`` says whether gradients are kept, ``is_first`` whether the loader has begun with it.
        """
        if self._thread not in (0, get_ident()):
            # Of a thread that fetches ahead: nobody has waited for it yet.
            if learns:
                self._count(loader, LoaderSums(*self._readings.batch_size(batch)))
            return
        if not learns:
            if self._evaluating is None and self._leader.is_known:
                self._evaluating = _Begun(loader, since)
            return
        self._evaluating = None
        now = deferral.now()
        held = self._held.get(loader)
        if not self._backwards and not self._leader.is_known and (self._begins is None or held is not None):
            # What was read before the training began is no part of its first step.
            self._begin_at(since)
            self._held.clear()
            is_first, held = is_first or (held is not None and held.is_whole), None
        if held is None:
            if len(self._held) >= _MAXIMUM_LOADERS:
                self._add(spans.RL_DATA_WAIT, since, now)
                return
            held = self._held[loader] = Held(since, is_whole=is_first)
        held.wait(since, now)
        held.sums.add(*self._readings.batch_size(batch))
        self._forward = now

    def loader_ended(self, loader: int) -> None:
        """Note that a loader has no more batches: an evaluation by it is over."""
        began = self._evaluated_since(loader)
        if began is None:
            return
        now = deferral.now()
        # The batch of another loader may have come before the evaluation.
        self._forward = now if self._held else None
        if self._leader.is_known:
            # Beside what the program itself calls a phase: nothing that is open now began after it.
            Phase(spans.RL_EVALUATE, self._scope, is_exclusive=False).start(began).close(at=now)
        if self._loop.step is None and not self._backwards:
            self._begin_at(now if self._leader.is_known else None)
            for held in self._held.values():
                held.forget_waits()

    def goes_on(self) -> None:
        """Note that the program goes on after a pause that is part of no step, as between two cells of a notebook."""
        if self._loop.step is None and self._begins is not None and not self._backwards:
            self._begin_at(deferral.now())

    def _evaluated_since(self, loader: int) -> Moment | None:
        """Return since when the program has evaluated by ``loader``, which has ended; None where it has not."""
        evaluation, held = self._evaluating, self._held.get(loader)
        if evaluation is not None and evaluation.owner == loader:
            self._evaluating = None
            return evaluation.began
        # A closure may read all of its data before its backward pass.
        if held is None or not held.is_whole or self._optimizing is not None:
            return None
        del self._held[loader]
        return held.began

    def _begin_at(self, moment: Moment | None) -> None:
        """Let the next step begin at ``moment``, without what was before."""
        self._begins = moment
        self._parts.clear()
        self._more.clear()

    def _take_held(self) -> None:
        """Count the batches that were held: a backward pass follows them."""
        for loader, held in self._held.items():
            self._take_waits(held)
            self._count(loader, held.sums)
        self._held.clear()

    def _take_waits(self, held: Held) -> None:
        if len(self._parts) + len(held.waits) <= MAXIMUM_PARTS:
            self._parts += held.waits
        else:
            for wait in held.waits:
                self._add(*wait)
        if held.more:
            self._add_seconds(spans.RL_DATA_WAIT.type, held.more)

    def _count(self, loader: int, given: LoaderSums) -> None:
        sums = self._loaders.get(loader)
        if sums is not None:
            sums.add(given.samples, given.tokens)
        elif len(self._loaders) < _MAXIMUM_LOADERS:
            self._loaders[loader] = given

    # -- backward passes -------------------------------------------------------------------------------------------

    def backward_begins(self, loss: Any) -> bool:
        """Note that a backward pass begins; return whether :meth:`backward_ended` is to be told of its end.

        Not for one inside of another, as the recomputation of activations has it.
        """
        self._backwards += 1
        if self._backward is not None:
            return False
        now = self._backward = deferral.now()
        self._thread = get_ident()
        # What computes gradients is no evaluation.
        self._evaluating = None
        self._take_held()
        forward, self._forward = self._forward, None
        if forward is not None:
            self._add(spans.RL_FORWARD, forward, now)
        self._add_loss(loss)
        self._begins = self._begins or forward or now
        if self._loop.step is None and (self._told or self._leader.is_known or self._sees_optimizer()):
            self._open(self._begins)
        return True

    def _add_loss(self, loss: Any) -> None:
        self.passes += 1
        if self.passes == 1:
            self._loss = self._readings.value(loss)
        elif self._loss is not None:
            # Only of a library that tells its steps is it known that their passes are for equal parts of a batch.
            value = self._readings.value(loss) if self._told is not None else None
            self._loss = self._loss + value if value is not None else None

    def backward_ended(self, error: BaseException | None = None) -> None:
        """Note that the pass has ended."""
        began, self._backward = self._backward, None
        if error is not None or began is None:
            return
        now = deferral.now()
        self._add(spans.RL_BACKWARD, began, now)
        optimizing = self._optimizing
        if optimizing is not None:
            # A closure has computed it within the optimizer's step: the update is what comes after it.
            self._optimizing = optimizing._replace(began=now)

    def _sees_optimizer(self) -> bool:
        """Return whether the program has made an optimizer; who only computes gradients makes no steps."""
        self._looks += 1
        return self._looks <= _LOOKS and steps.is_missing()

    # -- optimizers ------------------------------------------------------------------------------------------------

    def optimizer_begins(self, optimizer: Any, has_closure: bool) -> None:
        """Note that an optimizer's step begins; its closure computes forward and backward passes within it."""
        if self._told is None:
            self._update_begins(optimizer, has_closure)

    def optimizer_ended(self, optimizer: Any) -> None:
        """Note that an optimizer's step has ended, which may be the end of a step of the training."""
        if self._told is None:
            self._update_ended(optimizer, optimizer)

    def _update_begins(self, optimizer: Any, has_closure: bool = False) -> None:
        now = deferral.now()
        self._optimizing = _Begun(id(optimizer), now)
        if has_closure:
            self._forward = now

    def _update_ended(self, optimizer: Any, has_rate: Any) -> None:
        now = deferral.now()
        running, self._optimizing = self._optimizing, None
        began = running.began if running is not None and running.owner == id(optimizer) else None
        is_step = self._leader.moves(optimizer, self._backwards)
        if is_step and self._loop.step is None:
            self._open(self._begins or now)
        if self._backward is not None:
            # Parameter by parameter within a backward pass, of which the next step has the rest.
            if is_step:
                self._add(spans.RL_BACKWARD, self._backward, now)
                self._backward = now
        elif began is not None:
            self._add(spans.RL_OPTIMIZER, began, now)
        if is_step:
            self._end(has_rate, now)
        elif self._leader.is_same_step:
            self._backwards = self.passes = 0

    # -- steps -----------------------------------------------------------------------------------------------------

    def _open(self, begins: Moment) -> None:
        if self._told is None:
            self._follow_caller()
        self._loop.begin(self._next_number, self._scope, begins)

    def _follow_caller(self) -> None:
        """In a call that a step of another process has made: the steps are its own, and none is guessed."""
        is_called = caller_steps.current() is not None
        if is_called is not isinstance(self._loop, CalledLoop):
            self._loop.retire()
            self._loop = CalledLoop() if is_called else GuessedLoop()

    def _add(self, definition: SpanDefinition, began: Moment, ended: Moment) -> None:
        """Keep a part that is over; an I/O thread records it."""
        if len(self._parts) < MAXIMUM_PARTS:
            self._parts.append((definition, began, ended))
        else:
            self._add_seconds(definition.type, ended.counter - began.counter)

    def _add_seconds(self, type_of_span: str, seconds: float) -> None:
        """Record the duration of a part that is not kept, or add it up until a step is open."""
        step = self._loop.step
        if step is not None:
            step.add_duration(type_of_span, self._scope, seconds)
        else:
            self._more[type_of_span] = self._more.get(type_of_span, 0.0) + seconds

    def _end(self, optimizer: Any, now: Moment) -> None:
        # Asked for before the parameters moved: their time is this step's, and they themselves are the next one's.
        for held in self._held.values():
            self._take_waits(held)
            held.forget_waits()
        step = self._loop.step
        if isinstance(step, GuessedStep):
            for type_of_span, seconds in self._more.items():
                step.add_duration(type_of_span, self._scope, seconds)
            rate = self._readings.learning_rate(optimizer)
            loss = self._loss / max(self.passes, 1) if self._loss is not None else None  # 0: another thread's step
            missing = self._readings.missing_gradients(optimizer) if self._told is None else None
            step.seen = Seen(self._parts, self._loaders, rate, loss, self._clipping, missing)
            self._loop.finish(at=now)
        self._begins, self._backwards, self.passes = now, 0, 0
        self._parts, self._more, self._loaders, self._clipping = [], {}, {}, Clipping()


#: What guesses the steps of this process, where an instrumentor of PyTorch does.
running: GuessedSteps | None = None


def passes_without_step() -> int:
    """Return the backward passes of a process in which no step was opened: its loop moves the weights by hand."""
    return running.passes if running is not None and steps.last_iteration() is None else 0


class _Leader:
    """Which optimizer leads, and whether it has moved the parameters."""

    def __init__(self, readings: Readings | EngineReadings) -> None:
        self._readings = readings
        self._optimizer: ref[Any] | None = None
        self._size = -1
        self._steps = 0
        self._of_others = 0
        #: True from the first step on.
        self.is_known = False
        #: The latest one to lead belongs to the step that its predecessor has ended.
        self.is_same_step = False

    @property
    def optimizer(self) -> Any:
        """The one that leads; None before one does."""
        return self._optimizer() if self._optimizer is not None else None

    def moves(self, optimizer: Any, backwards: int) -> bool:
        """Return whether ``optimizer``, which has made a step after ``backwards`` passes, leads and ends a step."""
        self.is_same_step = False
        if not backwards:
            return False
        leader = self.optimizer
        if leader is not optimizer:
            size = self._readings.size(optimizer)
            if leader is not None and not self._gives_way(leader, optimizer, size):
                self._of_others += 1
                return False
            # Of two that take turns from the first step on, the smaller one has come first.
            self.is_same_step = leader is not None and size > self._size and self._steps == 1
            self._optimizer, self._size = ref(optimizer), size
        self._of_others = 0
        if self.is_same_step:
            return False
        self._steps += 1
        self.is_known = True
        return True

    def _gives_way(self, leader: Any, optimizer: Any, size: int) -> bool:
        """Return whether another optimizer leads now: a larger one, one made anew, or the only one still in use."""
        return (
            size > self._size
            or self._readings.first_parameter(optimizer) is self._readings.first_parameter(leader)
            or self._of_others >= _STEPS_WITHOUT_LEADER
        )
