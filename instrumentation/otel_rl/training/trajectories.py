"""Numbers of every trajectory: one record ``rl.trajectories`` per iteration, a list per column.

Trajectories that end one by one (:mod:`.trajectory_rows`) wait for the end of the open step, so that a step has one
record, whatever is exported meanwhile; those outside of all steps for the next export. What a trainer makes in a batch
(:func:`add_batch`) is columns already. Everything but the call itself happens on an I/O thread, where there is one.

For a process that is killed in a step, ``otel_rl.flush`` and :data:`COPY_SECONDS` make a copy of rows that wait, not of
batches: ``rl.trajectories.pending``. What the program says of a rollout until the step ends is in the record only.

The records are the exact form of rewards: the health rules read them, live through :data:`listeners`.

At most :data:`MAXIMUM_ROWS` wait. Further ones are counted as dropped (``trajectory_limit``) and in the record.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle
from otel_rl.telemetry.attribute_values import PlainBody
from otel_rl.training import (
    caller_steps,
    steps,
    trajectory_bodies,
    trajectory_changes,
    trajectory_columns,
    trajectory_counts,
)
from otel_rl.training.step_subscribers import StepSubscribers
from otel_rl.training.trajectory_columns import ROWS_PER_RECORD, Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_rl.telemetry.scope import Scope
    from otel_rl.training.caller_steps import CallerStep

    #: Scope, iteration, source and step of rows, and the step of the caller where they have none.
    _Group = tuple[str, int | None, str, steps.Step | None, CallerStep | None]

Taken = TypeVar("Taken")

#: Most rows that wait for a record: 512 prompts with 16 samples each, of a step that ended just now and of the next.
MAXIMUM_ROWS = 2 * 8192
#: Without an I/O thread rows outside of all steps wait for so many others, or for so many seconds.
WAITING_ROWS, WAITING_SECONDS = ROWS_PER_RECORD, 5.0
#: Seconds after which a copy of a row of an open step leaves.
COPY_SECONDS = 30.0
#: Why a row is dropped.
LIMIT = "trajectory_limit"
#: Of a record that belongs to no step. Not an empty one, which stands for the current one in the SDK.
NO_CONTEXT = trace_api.set_span_in_context(INVALID_SPAN, Context())
_SITE = guard("trajectories.record")
_LISTENER = guard("trajectories.listener")


@dataclass(slots=True, eq=False)
class _WaitingRows:
    """Rows of one iteration and one source, one or many, that wait for the end of ``step``.

    ``copy`` makes them as they are known now; None where they can be made only once.
    """

    scope: Scope
    source: str
    iteration: int | None
    step: steps.Step | None
    context: Context
    rows: int
    make: Callable[[], Columns]
    copy: Callable[[], Columns] | None = None
    #: Where the rows are of a call in the worker of a pool: the step of the process that submitted it.
    caller: CallerStep | None = None
    since: float = field(default_factory=time.monotonic)
    is_copied: bool = False

    @property
    def is_held(self) -> bool:
        """True while further rows may come for the same record."""
        return self.step is not None and self.step.is_open

    @property
    def group(self) -> _Group:
        """Rows with the same one go into the same record."""
        return self.scope.name, self.iteration, self.source, self.own_step, self.caller

    def common(self, made: Sequence[Columns]) -> dict[str, Any]:
        """Attributes of the record that has these rows, and others of the same group: ``made`` are all of them."""
        return {
            **self._place(),
            attributes.RL_ADVANTAGE_ESTIMATOR: trajectory_columns.common(part.estimator for part in made),
            attributes.RL_GROUP_SIZE: trajectory_columns.common(part.group_size for part in made),
        }

    def _place(self) -> dict[str, Any]:
        if self.step is None and self.caller is not None:
            return self.caller.of_rows()
        return {
            attributes.RL_LOOP_NAME: None if self.step is None else self.step.loop.name,
            attributes.RL_TRAJECTORIES_STEP: None if self.own_step is None else self.own_step.iteration,
            attributes.RL_TRAJECTORIES_RESTARTS: (None if self.step is None else self.step.restarts) or None,
        }

    @property
    def own_step(self) -> steps.Step | None:
        """The step whose rewards the rows are; None outside of all steps, and where a trainer logs the rewards."""
        return None if self.step is None or self.step.loop.logs_rewards else self.step


_waiting: deque[_WaitingRows] = deque()
#: Trajectories that began and are in no record yet: scope, source and how many. Appending takes no lock.
_began: deque[tuple[Scope, str, int]] = deque(maxlen=4 * MAXIMUM_ROWS)
#: Rows that wait; rows that had no room, since the last record.
_rows = _left_out = 0
#: Those of them that the last record has held back, for the ends of their steps.
_held = 0
#: Since when others wait.
_waits_since = 0.0
#: Whether a recording on an I/O thread is already scheduled.
_posted = False
#: Called with the step, the body and the iteration of each record whose rewards count to a step.
listeners: StepSubscribers[Callable[[steps.Step, Mapping[str, Any], int | None], None]] = StepSubscribers()


def began(scope: Scope, source: str, count: int = 1) -> None:
    """Trajectories have begun; that some of them never end shows in the records."""
    lifecycle.before_shutdown(_record_all)
    _began.append((scope, source, count))


def add_row(
    scope: Scope, source: str, iteration: int | None, make: Callable[[], Columns], copy: Callable[[], Columns]
) -> None:
    """Add the row of one trajectory of an iteration, which has ended.

    ``make`` is called once, where the record is made; ``copy`` at any time before, any number of times.
    """
    step = steps.where().step
    context = step.context if step is not None and step.iteration == iteration else NO_CONTEXT
    caller = caller_steps.current() if step is None else None
    _keep(_WaitingRows(scope, source, iteration, step, context, 1, make, copy, caller))


def add_batch(
    scope: Scope,
    source: str,
    iteration: int | None,
    count: int,
    make: Callable[[], Columns],
) -> None:
    """Add ``count`` samples that a trainer has made at once.

    ``make`` is called where the record is made, and must not hold tensors of the program. Each column that it returns
    has ``count`` values. Values may be of any kind that the program makes: what can be no value of OTLP becomes empty.
    """
    began(scope, source, count)
    step = steps.where().step
    context = step.context if step is not None else NO_CONTEXT
    _keep(_WaitingRows(scope, source, iteration, step, context, count, make))


def _keep(waiting: _WaitingRows) -> None:
    """Rows wait for the end of their step, unless so many do that others would have no room."""
    global _rows, _left_out, _waits_since
    lifecycle.before_shutdown(_record_all)
    if _rows + waiting.rows > MAXIMUM_ROWS:
        # Not sorted out by worth: that would need all of them. The sums of the metrics have these too.
        _left_out += waiting.rows
        drops.count(Signal.LOGS, LIMIT, waiting.rows)
        return
    if not _waiting:
        _waits_since = time.monotonic()
    _rows += waiting.rows
    _waiting.append(waiting)
    is_crowded = _is_crowded()
    # Asked last: another thread may have ended the step meanwhile, and its end has recorded what was there.
    if not waiting.is_held or is_crowded:
        _record_soon()
    if is_crowded:
        deferral.give_way()


def _is_crowded() -> bool:
    return _rows * 2 > MAXIMUM_ROWS


def _record_soon() -> None:
    """Have what waits recorded with the next export, all of it together."""
    global _posted
    if deferral.posting():
        if not _posted:
            _posted = True
            if not deferral.post(Signal.LOGS, record):
                _posted = False
    elif _rows - _held >= WAITING_ROWS or time.monotonic() - _waits_since >= WAITING_SECONDS:
        deferral.post(Signal.LOGS, record)


def _step_ended(*_: object) -> None:
    """Record the rows of the step; on an I/O thread where there is one."""
    if _waiting:
        record()


def copy_due() -> None:
    """Have copies of the rows made that have waited for long; an I/O thread asks again and again."""
    # The first one has waited longest.
    first = next((waiting for waiting in _waiting.copy() if not waiting.is_copied and waiting.copy is not None), None)
    if first is not None and time.monotonic() - first.since >= COPY_SECONDS:
        copy_soon()


def copy_soon() -> None:
    """Have copies made of all rows that wait for the end of a step, before the next export."""
    if _waiting:
        deferral.post(Signal.LOGS, _copy)


def _copy() -> None:
    groups: dict[_Group, list[_WaitingRows]] = {}
    for waiting in _waiting.copy():
        if waiting.copy is not None and not waiting.is_copied and waiting.is_held:
            waiting.is_copied = True
            groups.setdefault(waiting.group, []).append(waiting)
    for group in groups.values():
        with _SITE:
            made = [waiting.copy() for waiting in group if waiting.copy is not None]
            _, bodies = trajectory_bodies.make(made, [waiting.rows for waiting in group])
            first = group[0]
            which = {
                attributes.RL_LOOP_ITERATION: first.iteration,
                attributes.RL_TRAJECTORIES_SOURCE: first.source,
                **first.common(made),
            }
            for body in bodies:
                first.scope.event(events.RL_TRAJECTORIES_PENDING, body=body, attributes=which, context=first.context)


def record() -> None:
    """Record what waits, a record per iteration and source; rows of an open step wait on while there is room."""
    global _posted
    _posted = False
    must_repeat = True
    while must_repeat:
        held = _record_waiting(everything=_is_crowded())
        # Put back after their step had ended: its end has found nothing.
        must_repeat = any(not waiting.is_held for waiting in held)


def _record_waiting(*, everything: bool) -> list[_WaitingRows]:
    """Record the rows that wait, all of them or those of no open step; return the others, which wait on."""
    global _rows, _held, _left_out, _waits_since
    groups: dict[_Group, list[_WaitingRows]] = {}
    held: list[_WaitingRows] = []
    for waiting in _taken(_waiting):
        if waiting.is_held and not everything:
            held.append(waiting)
            continue
        _rows -= waiting.rows
        groups.setdefault(waiting.group, []).append(waiting)
    if not _waiting and not held:
        _rows = 0  # two threads that counted at once may have counted one
    _waiting.extendleft(reversed(held))
    _held = sum(waiting.rows for waiting in held)
    _waits_since = time.monotonic()
    started: dict[tuple[str, str], int] = {}
    unrecorded: dict[tuple[str, str], Scope] = {}
    for scope, source, count in _taken(_began):
        started[scope.name, source] = started.get((scope.name, source), 0) + count
        unrecorded[scope.name, source] = scope
    left_out, _left_out = _left_out, 0
    for (name, _, source, *_), group in groups.items():
        unrecorded.pop((name, source), None)
        with _SITE:
            _record(group, started.pop((name, source), 0), left_out)
        left_out = 0
    # Where none has ended, what began waits for the next record.
    _began.extend((scope, source, started[name, source]) for (name, source), scope in unrecorded.items())
    _left_out += left_out
    return held


def _record_all() -> None:
    """Record trajectories that began and will not end, without a row: the process ends."""
    _record_waiting(everything=True)
    for scope, source, count in _taken(_began):
        _emit(scope, PlainBody(), NO_CONTEXT, None, source, count, 0)


def _taken(queue: deque[Taken]) -> Iterator[Taken]:
    """Take out all items; other threads may do the same."""
    with suppress(IndexError):
        while True:
            yield queue.popleft()


def _record(group: Sequence[_WaitingRows], started: int, left_out: int) -> None:
    first, counts = group[0], [waiting.rows for waiting in group]
    made = [waiting.make() for waiting in group]
    step = first.own_step
    timestamp = None if step is None else step.end_time
    columns, bodies = trajectory_bodies.make(made, counts)
    for body in bodies:
        _emit(
            first.scope,
            body,
            first.context,
            first.iteration,
            first.source,
            started,
            left_out,
            first.common(made),
            timestamp,
        )
        for listener in tuple(listeners.callbacks):
            with _LISTENER:
                if step is not None:
                    listener(step, body, first.iteration)
        started = left_out = 0
    trajectory_counts.count_ended(first.scope, first.source, columns, sum(counts), first.context)


def _emit(
    scope: Scope,
    body: PlainBody,
    context: Context,
    iteration: int | None,
    source: str,
    started: int,
    left_out: int,
    common: Mapping[str, Any] = MappingProxyType({}),
    timestamp: int | None = None,
) -> None:
    trajectory_counts.count_started(scope, source, started)
    scope.event(
        events.RL_TRAJECTORIES,
        body=body,
        attributes={
            attributes.RL_LOOP_ITERATION: iteration,
            attributes.RL_TRAJECTORIES_SOURCE: source,
            attributes.RL_TRAJECTORIES_STARTED: started,
            attributes.RL_TRAJECTORIES_LEFT_OUT: left_out or None,
            **common,
        },
        context=context,
        timestamp=timestamp,
    )


def _forget() -> None:
    """Forget the parent's trajectories: a forked child has begun none of them."""
    global _rows, _held, _left_out, _posted
    _waiting.clear()
    _began.clear()
    _rows = _held = _left_out = 0
    _posted = False


# Here and not with the first row: before the listener of the health rules, which judges a step when it has ended.
steps.listeners.add(_step_ended)
lifecycle.before_flush(copy_soon)
lifecycle.at_intervals(copy_due)
lifecycle.after_fork_in_child(_forget)
# A child that goes on with a trajectory has a share of it.
lifecycle.after_fork_in_child(trajectory_changes.begin_anew)
