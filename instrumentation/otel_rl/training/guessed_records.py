"""What is recorded of a guessed step when it has ended: spans of its parts, and the values that torch itself knows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.process import process_identity
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops
from otel_rl.training import step_sampling, steps
from otel_rl.training.scalars import Source, sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.steps import Step

    #: A part of a step, such as a forward pass, that is over: what it is, when it began and ended.
    TimedPart = tuple[SpanDefinition, Moment, Moment]

#: Spans per step of each kind of part; the histogram has all. No phase is around them: what has no span here is
#: outside of all phases to who adds them up.
SPANS_PER_STEP = 32
#: Before the keys of a step that is guessed. A program may log a `loss` of its own by epochs, and of a loop of any kind
#: the rules for keys of trainers say only whether its loss is a number.
PREFIX = "torch/"
#: Keys of the share of trainable parameters (tensors) that have no gradient at a step, of their number, and of whether
#: a step has changed nothing, though earlier ones had.
WITHOUT_GRADIENT, TRAINABLE = f"{PREFIX}without_gradient", f"{PREFIX}trainable_parameters"
UNCHANGED = f"{PREFIX}unchanged"


class LoaderSums:
    """What one data loader has given for a step: samples, and tokens where it has any."""

    __slots__ = ("samples", "tokens")

    def __init__(self, samples: int | None = 0, tokens: int = 0) -> None:
        self.samples, self.tokens = samples or 0, tokens

    def add(self, samples: int | None, tokens: int) -> None:
        """Add a batch; of one without a shape nothing is known."""
        self.samples += samples or 0
        self.tokens += tokens


class Clipping(NamedTuple):
    """The norm of a step's gradients before they were clipped, and the limit of the clipping."""

    norm: float | None = None
    limit: float | None = None

    def values(self) -> Iterator[tuple[str, float]]:
        """Yield them under the keys that they are logged as, without a prefix; clipping may have no limit."""
        if self.norm is not None:
            yield "grad_norm", self.norm
            if self.limit is not None and math.isfinite(self.limit):
                yield "max_grad_norm", self.limit


class MissingGradients(NamedTuple):
    """Trainable parameters (tensors) of an optimizer that had no gradient at a step, and all of them.

    ``is_unchanged`` is True if the step has changed none, though earlier ones had.
    """

    missing: int
    trainable: int
    is_unchanged: bool = False

    @property
    def share(self) -> float:
        """Of the trainable ones."""
        return self.missing / (self.trainable or 1)

    def values(self) -> dict[str, float]:
        """Return them as they are logged."""
        return {WITHOUT_GRADIENT: self.share, TRAINABLE: self.trainable, UNCHANGED: float(self.is_unchanged)}


class Seen(NamedTuple):
    """What was seen of a step; it holds no memory of the program."""

    parts: list[TimedPart]
    #: By the identity of their data, in the order of their first batches.
    loaders: dict[int, LoaderSums]
    learning_rate: float | None
    loss: float | None
    clipping: Clipping = Clipping()
    #: None while every parameter has had one.
    gradients: MissingGradients | None = None

    @property
    def zeros(self) -> tuple[bool, float]:
        """What makes a step change nothing: a rate of zero, and parameters without a gradient (all: 1, most: 0.5)."""
        missing = self.gradients
        share = 0.0 if missing is None else max(missing.share, missing.is_unchanged)
        return self.learning_rate == 0, share if share == 1 else 0.5 * (share > 0.5)  # noqa: PLR2004 - most


def record(scope: Scope, step: Step, seen: Seen, seconds: float, end_time: int, *, changes_nothing: bool) -> None:
    """Record the parts and values of a step that took ``seconds`` and ended at ``end_time``, in ns since the epoch.

    Values of short steps are left out, but for one that ``changes_nothing`` or whose loss is no number.
    """
    record_parts(scope, step, seen)
    tokens = sum(loader.tokens for loader in seen.loaders.values())
    if tokens:
        scope.record(metrics.RL_TRAIN_TOKENS, tokens, context=step.context)
    leads = process_identity.current().leads_training
    if leads:
        scope.record(metrics.RL_TRAIN_STEPS, 1, context=step.context)
    if step.thinned == step_sampling.SHORT_STEP and math.isfinite(seen.loss or 0.0) and not changes_nothing:
        return
    # A library that tells its steps has the keys that trainers have.
    prefix = PREFIX if step.loop.source == LoopSource.GUESSED else ""
    if leads:
        values = {f"{prefix}{key}": value for key, value in _values(seen, seconds)}
        if seen.gradients is not None:
            values |= seen.gradients.values()
        sink.log(scope, Source.TORCH, step.iteration, values, context=step.context, timestamp=end_time)
        return
    # The exact values of the leading rank are the run's; throughput is each rank's own.
    for key, value in _throughput(seen, seconds):
        scope.record(metrics.RL_TRAINER_METRIC, value, {names.RL_TRAINER_METRIC_KEY: f"{prefix}{key}"}, step.context)


def record_in_known_step(scope: Scope, values: Mapping[str, float], source: str | None = None) -> None:
    """Record what torch knows of the open step that a trainer or the program tells, of all or those of ``source``."""
    step = steps.where().step
    if step is not None and source in {None, step.loop.source}:
        for key, value in values.items():
            sink.measure(scope, Source.TORCH, step.iteration, key, value, step)


def record_parts(scope: Scope, step: Step, seen: Seen) -> None:
    """Record the parts of a step alone."""
    for part in seen.parts:
        _record_part(scope, step, *part)


def _record_part(scope: Scope, step: Step, definition: SpanDefinition, began: Moment, ended: Moment) -> None:
    step.add_duration(definition.type, scope, ended.counter - began.counter)
    if not step.take_span(definition.type, SPANS_PER_STEP):
        return
    if step.thinned:
        drops.count(Signal.TRACES, step.thinned)
        return
    values: dict[str, Any] = {
        names.RL_PHASE: definition.type.removeprefix("rl."),
        names.RL_LOOP_ITERATION: step.iteration,
    }
    span = scope.start_span(definition, attributes=values, context=step.context, start_time=began.wall)
    scope.end_span(span, None, ended.wall)


def _values(seen: Seen, seconds: float) -> Iterator[tuple[str, float]]:
    """Yield what the step is known by, under the keys that trainers log it as, without a prefix."""
    if seen.learning_rate is not None:
        yield "learning_rate", seen.learning_rate
    if seen.loss is not None:
        yield "loss", seen.loss
    yield from seen.clipping.values()
    yield from _throughput(seen, seconds)


def _throughput(seen: Seen, seconds: float) -> Iterator[tuple[str, float]]:
    """Yield samples and tokens of this rank; loaders after the first are numbered."""
    for number, loader in enumerate(seen.loaders.values(), 1):
        place = f"/loader_{number}" if number > 1 else ""
        if loader.samples:
            yield f"batch_size{place}", loader.samples
        if seconds > 0:
            if loader.samples:
                yield f"samples_per_second{place}", loader.samples / seconds
            if loader.tokens:
                yield f"tokens_per_second{place}", loader.tokens / seconds
