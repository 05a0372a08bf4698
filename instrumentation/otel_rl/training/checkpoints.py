"""Saving and loading checkpoints, by whatever library: counters of all, and a phase for each that is worth a span.

A save within a save is part of it: a trainer's checkpoint has files, and one of ``torch.distributed.checkpoint`` calls
``torch.save``. Whether a save is worth a span is known at its end only. Its phase begins then, as of the beginning, and
suspends the phase around it from that moment on. In the flight recorder, and for the watchdog, it is open all the time.

Small ones and those in memory are only counted: programs save into a buffer to send something.
"""

from __future__ import annotations

import io
import os
import threading
from _thread import get_ident
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import RlCheckpointFormatValues as Format
from otel_rl.semconv.attributes import RlCheckpointOperationValues as Operation
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.semconv.attributes import RlRunPartValues as RunPart
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle, progress, run_parts
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.scope import Scope, enabled
from otel_rl.training import phases, saved_checkpoints, steps
from otel_rl.training.phases import Phase
from otel_rl.training.trainer_loop import PHASE_SPANS_PER_STEP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from opentelemetry.context import Context

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.telemetry.deferral import Moment

_scope = Scope("checkpoints")
#: Shortest in seconds and smallest in bytes that get a span.
SHORTEST, SMALLEST = 0.001, 64 << 10
_CALLS, _BYTES = range(2)
_PATHS = (str, os.PathLike)
#: ``error.type`` of what was given up before it was written.
CANCELLED = "cancelled"


class _OpenTransfer(threading.local):
    #: The innermost save or load of this thread.
    transfer: Transfer | None = None


_open = _OpenTransfer()
#: Saves of ``torch.distributed.checkpoint`` in this process, which may write from threads of their own.
_distributed: list[Transfer] = []
#: By what identifies their checkpoint, those that are written in the background.
_persisting: dict[object, Transfer] = {}
#: Calls and bytes by operation, format and thread: each thread adds to numbers of its own.
_totals: dict[tuple[str, str, int], list[int]] = {}


@dataclass(slots=True, eq=False, repr=False)
class Transfer:
    """One save or load, from its call on; :func:`begin` makes it, and :meth:`end` ends it."""

    operation: str
    _format: str
    target: InitVar[Any]
    _outer: Transfer | None
    #: What was open in this thread before.
    _enclosing: Transfer | None = field(default_factory=lambda: _open.transfer)
    #: Of what is saved or loaded; None in memory, and while it is not known.
    path: str | None = None
    _stream: io.IOBase | None = None
    _before: int | None = None
    #: Bytes of the saves and loads within it.
    nested: int = 0
    _flight: Handle | None = None
    _part: progress.OpenPart | None = None
    #: Of its phase, while and after it is recorded.
    context: Context | None = None
    began: Moment = field(default_factory=deferral.now)

    def __post_init__(self, target: Any) -> None:
        if isinstance(target, _PATHS):
            path = os.fspath(target)
            self.path = path if isinstance(path, str) else os.fsdecode(path)
        elif isinstance(target, io.IOBase):
            self._stream = target
            name = getattr(target, "name", None)
            self.path = name if isinstance(name, str) else None
            self._before = _position(self._stream)

    def open(self) -> None:
        """Let the flight recorder and the watchdog know what the thread is doing; a save may take minutes."""
        if self._outer is None and self.path is not None and self.operation == Operation.LOAD:
            self._part = progress.part_began(RunPart.CHECKPOINT)
        elif self._outer is None and self.path is not None:
            self._flight = flight.begin(layout.PHASE, RlPhaseValues.CHECKPOINT)
            progress.phase_began(id(self), RlPhaseValues.CHECKPOINT)

    def end(self, error: BaseException | None = None) -> None:
        """Count it, and record it where it is worth a span; one within another is part of that."""
        now = deferral.now()
        if _open.transfer is self:
            _open.transfer = self._enclosing
        self._close(error)
        outer = self._outer
        if outer is not None:
            outer.nested += self._size() or 0
            return
        size = self.count()
        seconds = now.counter - self.began.counter
        if self.path is None or seconds < SHORTEST or (error is None and size is not None and size < SMALLEST):
            return
        if self.operation == Operation.LOAD:
            self._record_load(now, error)
        else:
            self._record_save(now, seconds, error)

    def _close(self, error: BaseException | None) -> None:
        record, self._flight = self._flight, None
        part, self._part = self._part, None
        if part is not None:
            progress.part_ended(part, failed=error is not None)
        flight.end(record, error is not None)
        progress.phase_ended(id(self))
        if self in _distributed:
            _distributed.remove(self)

    def _size(self) -> int | None:
        """Return the bytes that this process has moved; None where nothing tells."""
        if self.nested:
            return self.nested
        if self.operation == Operation.STAGE:
            # The background may have written a part of it already.
            return None
        if self._stream is not None and self.operation != Operation.LOAD:
            after = _position(self._stream)
            return None if after is None or self._before is None else max(after - self._before, 0)
        return saved_checkpoints.size_of(self.path) if self.path is not None else None

    def count(self) -> int | None:
        """Add it to the counters, and return its bytes where they are known."""
        size = self._size()
        _count(self.operation, self._format, size or 0)
        return size

    def _record_load(self, now: Moment, error: BaseException | None) -> None:
        if steps.where().step is not None:
            Phase(spans.RL_LOAD, _scope, limit=PHASE_SPANS_PER_STEP).start(self.began).close(error, now)
        elif not run_parts.is_inside():
            run_parts.add(RunPart.CHECKPOINT, self.began.wall, error)

    def _record_save(self, now: Moment, seconds: float, error: BaseException | None) -> None:
        if not phases.is_inside(RlPhaseValues.CHECKPOINT) and not phases.is_inside(RlPhaseValues.EVALUATE):
            phase = Phase(spans.RL_CHECKPOINT, _scope, limit=PHASE_SPANS_PER_STEP).start(self.began)
            self.context = phase.context
            phase.close(error, now)
        if error is None and self.operation == Operation.SAVE:
            self.list(now, seconds)

    def list(self, now: Moment, seconds: float) -> None:
        """Add it to the checkpoints of the run."""
        if self.path is not None and saved_checkpoints.is_listed_here():
            size = saved_checkpoints.size_of(self.path)
            saved_checkpoints.add(
                self.path, self._format, (self.nested or None) if size is None else size, seconds, now
            )


class Staging:
    """A checkpoint that is copied first, as a phase, and then written in the background, beside the training."""

    __slots__ = ("_background", "_key", "_stage")

    def __init__(self, target: Any, key: object, stage: Transfer) -> None:
        self._stage, self._key = stage, key
        # The background may begin to write before the call that stages returns.
        self._background = Transfer(Operation.PERSIST, Format.DISTRIBUTED, target, None)
        _persisting[key] = self._background

    def end(self, written: Future[Any] | None, error: BaseException | None = None) -> None:
        """End the copy; what follows ends when ``written`` is done."""
        self._stage.end(error)
        if written is None:
            self._over()
            return
        context, iteration, now = self._stage.context, steps.where().iteration, deferral.now()
        written.add_done_callback(lambda future: self._written(future, now, context, iteration))

    def _over(self) -> None:
        if _persisting.get(self._key) is self._background:
            del _persisting[self._key]

    def _written(self, future: Future[Any], since: Moment, context: Context | None, iteration: int | None) -> None:
        """Record the background's part; called in the thread that wrote."""
        with guard("checkpoints.written"):
            now, background = deferral.now(), self._background
            self._over()
            background.count()
            error = None if future.cancelled() else future.exception()
            kind = CANCELLED if future.cancelled() else None if error is None else error_type(error)
            deferral.post(Signal.TRACES, lambda: _record_persisting(since.wall, now.wall, kind, context, iteration))
            if kind is None:
                background.list(now, now.counter - background.began.counter)


def _record_persisting(start: int, end: int, error: str | None, context: Context | None, iteration: int | None) -> None:
    values = {names.RL_LOOP_ITERATION: iteration}
    span = _scope.start_span(spans.RL_CHECKPOINT_PERSIST, attributes=values, context=context, start_time=start)
    _scope.end_span(span, error, end)


def begin(operation: str, file_format: str, target: Any = None, key: object = None) -> Transfer | None:
    """Begin a save or load of ``target``, a path or a file; None where nothing is recorded.

    ``key`` identifies a checkpoint of ``torch.distributed.checkpoint``, which the background may be writing.
    """
    if not enabled():
        return None
    outer = _open.transfer
    if outer is None:
        outer = _persisting.get(key) if key is not None else None
        if outer is None and _distributed and isinstance(target, io.IOBase):
            outer = _distributed[-1]
    transfer = Transfer(operation, file_format, target, outer)
    if outer is not None and outer.path is None:
        outer.path = transfer.path
    if file_format == Format.DISTRIBUTED:
        _distributed.append(transfer)
    _open.transfer = transfer
    transfer.open()
    return transfer


def may_be_in_memory(stream: Any) -> bool:
    """Return whether saving into ``stream`` is only to be counted, by :func:`count_in_memory`."""
    return type(stream) is io.BytesIO and _open.transfer is None and not _distributed


def count_in_memory(file_format: str, size: int) -> None:
    """Count a save of ``size`` bytes into memory."""
    if enabled():
        _count(Operation.SAVE, file_format, size)


def begin_staging(target: Any, key: object) -> Staging | None:
    """Begin to copy a checkpoint that is written in the background; ``key`` identifies it there."""
    stage = begin(Operation.STAGE, Format.DISTRIBUTED, target)
    return None if stage is None else Staging(target, key, stage)


def _position(stream: io.IOBase) -> int | None:
    try:
        return stream.tell()
    except (OSError, ValueError):  # a pipe, a closed file
        return None


# -- counters ----------------------------------------------------------------------------------------------------------


def _count(operation: str, file_format: str, size: int) -> None:
    key = (operation, file_format, get_ident())
    numbers = _totals.get(key)
    if numbers is None:
        numbers = _totals.setdefault(key, [0, 0])
        if lifecycle.has_recorded:
            _observe_later()
    numbers[_CALLS] += 1
    numbers[_BYTES] += size


def _observe() -> None:
    _scope.observe(metrics.RL_CHECKPOINT_OPERATIONS, lambda: _sums(_CALLS))
    _scope.observe(metrics.RL_CHECKPOINT_IO, lambda: _sums(_BYTES))


def _observe_later() -> None:
    """Register the counters with the first record of the process: what only saves into memory records nothing."""
    deferral.post(Signal.METRICS, _observe)


def _sums(position: int) -> Iterator[tuple[float, dict[str, Any]]]:
    sums: dict[tuple[str, str], int] = {}
    for (operation, file_format, _), numbers in list(_totals.items()):
        sums[operation, file_format] = sums.get((operation, file_format), 0) + numbers[position]
    for (operation, file_format), value in sums.items():
        yield value, {names.RL_CHECKPOINT_OPERATION: operation, names.RL_CHECKPOINT_FORMAT: file_format}


def _forget() -> None:
    """Forget the parent's: it ends what is open."""
    _open.transfer = None
    _distributed.clear()
    _persisting.clear()
    _totals.clear()


lifecycle.at_first_record(_observe_later)
lifecycle.after_fork_in_child(_forget)
