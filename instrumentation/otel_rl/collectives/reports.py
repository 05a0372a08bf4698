"""Publishing what the collective recorder has counted.

Observable counters read the slots at export, the span of each step gets what was added during the step, and the slowest
few collectives of the step become events on it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.collectives import first_use
from otel_rl.collectives.recorder import BYTES, CALLS, HOST_TIME, UNKNOWN_SIZE, WAIT_TIME
from otel_rl.collectives.unseen import UnseenCollectives
from otel_rl.core import clock as wall_clock
from otel_rl.core import own_cpu
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import TorchDistributedSourceValues as Source
from otel_rl.telemetry import lifecycle, progress
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_rl.collectives.mode import Mode
    from otel_rl.collectives.recorder import CollectiveRecorder, CollectiveSums, SlotKey, Slow
    from otel_rl.collectives.unseen import Beginning
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.telemetry.scope import Scope

    Observations = Iterator[tuple[float, dict[str, Any]]]

SECONDS = 1e-9
#: Nanoseconds of CPU time that counting one collective takes, by its issuer, as ``collective_step`` measured them on a
#: slow machine. Those of Python are counted in far less, and sampled: the launch, and as much for the wait.
COST_NS: Mapping[str, int] = {Source.REDUCER: 14_000, Source.FUNCTIONAL: 70_000}
#: What one of Python's costs in addition, while others of its operation are counted too.
COST_MARKED_NS = 12_700


class _Opened(NamedTuple):
    """What was counted when a step began, and the slowest collectives of the step up to now."""

    totals: CollectiveSums
    unseen: Beginning
    slowest: list[Slow]


class CollectiveReporter:
    """Publishes a recorder: observable counters, deltas and slowest events on the span of each step.

    ``numbers`` gives the number of each process group's latest collective, see :mod:`otel_rl.collectives.unseen`.
    """

    def __init__(
        self,
        recorder: CollectiveRecorder,
        scope: Scope,
        numbers: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        self.recorder = recorder
        #: Judges each step that ends, and may change then.
        self.mode: Mode | None = None
        self.unseen = UnseenCollectives(recorder, numbers)
        self._scope = scope
        self._at_start = self._opened()
        #: Calls of each slot whose cost has been returned.
        self._costed: dict[SlotKey, int] = {}
        #: What was counted when each open step began; several loops may have one.
        self._open: WeakKeyDictionary[steps.Step, _Opened] = WeakKeyDictionary()
        #: What was counted when the last guessed step ended: the next one begins there, and is opened later.
        self._at_last_end: _Opened | None = None

    def start(self) -> None:
        """Follow the steps, and register the counters when the first collective comes."""
        self.recorder.on_first_use = self.observe
        steps.openers.add(self.step_opened)
        steps.contributors.add(self.step_closing)
        lifecycle.after_fork_in_child(self.forked)
        progress.add_source(self.recorder.totals)

    def stop(self) -> None:
        """Leave the steps alone; the counters keep their last values."""
        self.recorder.on_first_use = None
        steps.openers.remove(self.step_opened)
        steps.contributors.remove(self.step_closing)
        progress.remove_source(self.recorder.totals)

    def observe(self) -> None:
        """Register the observable counters (again after a fork: the child has new instruments)."""
        if not self._scope.enabled:
            return
        first_use.is_counted = True
        own_cpu.add_source("collectives", self.own_nanoseconds)
        for metric, position, factor in (
            (metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS, CALLS, 1),
            (metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO, BYTES, 1),
            (metrics.TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME, HOST_TIME, SECONDS),
            (metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME, WAIT_TIME, SECONDS),
        ):
            self._observe(metric, position, factor)

    def own_nanoseconds(self) -> float:
        """Return what counting has cost since the last call, see :data:`COST_NS`."""
        costs = {**COST_NS, Source.PYTHON: 2 * self.recorder.own_ns[0]}
        cost = 0.0
        for group, values in self.recorder.values():
            calls = values[CALLS] - self._costed.get(group, 0)
            cost += calls * costs[group.source]
            if group.source == Source.PYTHON and self.mode is not None and self.mode.covers(group.operation):
                cost += calls * COST_MARKED_NS
            self._costed[group] = values[CALLS]
        return cost

    def _observe(self, metric: MetricDefinition, position: int, factor: float) -> None:
        def observations() -> Observations:
            for group, values in self.recorder.values():
                yield values[position] * factor, _group_attributes(group)

        self._scope.observe(metric, observations)

    def step_opened(self, step: steps.Step) -> None:
        """Attribute the collectives from its beginning on to ``step``."""
        if _may_have_none(step) and not self.unseen.has_groups():
            return
        opened, self._at_last_end = self._at_last_end, None
        if opened is not None and step.follows:
            self._open[step] = opened
            self._share_slowest()
            return
        self._share_slowest()
        self._open[step] = self._opened()

    def step_closing(self, step: steps.Step) -> None:
        """Put what was added during ``step`` on its span."""
        if _may_have_none(step) and (not self._open or step not in self._open):
            return
        self._share_slowest()
        opened = self._open.pop(step, self._at_start)
        before, after = opened.totals, self.recorder.totals()
        unseen = self.unseen.since(opened.unseen)
        if (ring := flight.ring) is not None:
            ring.step_over(after.wait_time)
        if self.mode is not None:
            self.mode.step_closed(unseen, time.perf_counter() - step.started, step.loop)
        if step.loop.source == LoopSource.GUESSED:
            self._at_last_end = self._opened()
        if not step.takes_values:
            return
        step.describe(
            {
                attributes.TORCH_DISTRIBUTED_CALLS: after.calls - before.calls,
                attributes.TORCH_DISTRIBUTED_BYTES: after.bytes - before.bytes,
                attributes.TORCH_DISTRIBUTED_HOST_TIME: (after.host_time - before.host_time) * SECONDS,
                attributes.TORCH_DISTRIBUTED_WAIT_TIME: (after.wait_time - before.wait_time) * SECONDS,
            }
        )
        if unseen:
            step.describe({attributes.TORCH_DISTRIBUTED_UNSEEN: unseen})
        epoch_of_clock = wall_clock.now() - time.monotonic_ns()
        for slow in opened.slowest:
            values = {
                **_group_attributes(slow.group),
                attributes.TORCH_DISTRIBUTED_DURATION: slow.duration * SECONDS,
            }
            if slow.message_size != UNKNOWN_SIZE:
                values[attributes.TORCH_DISTRIBUTED_MESSAGE_SIZE] = slow.message_size
            name = events.TORCH_DISTRIBUTED_COLLECTIVE.name
            step.note(name, values, slow.started + epoch_of_clock)

    def forked(self) -> None:
        """Begin at zero in a forked child."""
        self.recorder.reset()
        self._costed.clear()
        self._at_start = self._opened()
        self._open.clear()
        self._at_last_end = None

    def _opened(self) -> _Opened:
        return _Opened(self.recorder.totals(), self.unseen.begin(), [])

    def _share_slowest(self) -> None:
        """Add the slowest collectives up to now to every step that is open."""
        slowest = self.recorder.take_slowest()
        for opened in list(self._open.values()) if slowest else ():
            opened.slowest[:] = sorted([*opened.slowest, *slowest], reverse=True)[: self.recorder.keeps]


def _may_have_none(step: steps.Step) -> bool:
    """Return whether nothing was counted, and nobody has asked for the step: many plain loops run on one process."""
    return step.loop.source == LoopSource.GUESSED and not first_use.is_counted


def _group_attributes(group: SlotKey) -> dict[str, Any]:
    return {
        attributes.TORCH_DISTRIBUTED_OPERATION: group.operation,
        attributes.TORCH_DISTRIBUTED_GROUP_NAME: group.name,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE: group.size,
        attributes.TORCH_DISTRIBUTED_SOURCE: group.source,
    }
