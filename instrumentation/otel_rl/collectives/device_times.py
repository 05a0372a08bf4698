"""How long the device took in each collective, as PyTorch's flight recorder has timed it: who came last with NCCL.

With NCCL the host does not wait, so its clock tells nothing of who is late. The device does: a collective occupies it
from the moment when the rank is ready until all ranks have come and the transfer is done. A dump holds the interpreter
for some 25 ms, so it is read once in each minute of the wall clock, at the end of a step, which is the same step on all
ranks, and at the end of the process. Between two steps no CUDA graph is being captured, which a question to a CUDA
event from another thread would break.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.collectives.torch_entries import NewEntries
from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import TorchDistributedTimingValues as Timing
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.attribute_values import PlainBody
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.collectives.torch_entries import TimedCollective
    from otel_rl.telemetry.scope import Scope

#: Rows of an event: the newest. All ranks read after the same step, so theirs are of the same collectives.
MOST_ROWS = 512
#: Seconds between two reads.
INTERVAL = 60
#: Characters of a row as JSON, about.
_ROW = 80
_READ, _GROUPS = guard("collectives.device_times"), guard("collectives.device_times.groups")


class DeviceTimes:
    """Reads the durations, and publishes them.

    Args:
        scope: Gets the events.
        dump: Returns the dump of this process, without stacks.
        groups: Returns the text of each process group that there is, by its name, given how often the program has made
            its default group.
        is_capturing: Returns whether this thread captures a CUDA graph.
    """

    def __init__(
        self,
        scope: Scope,
        dump: Callable[[], bytes],
        groups: Callable[[int], Mapping[str, str]],
        is_capturing: Callable[[], bool],
    ) -> None:
        self._scope, self._dump, self._find_groups, self._is_capturing = scope, dump, groups, is_capturing
        self._entries = NewEntries()
        #: Names begin again when the default group is made anew, and so do the numbers of collectives.
        self._generation = 1
        self._groups: dict[str, str] = {}
        self._minute = _minute()
        self._own_ns = 0
        self._is_on = False

    def start(self) -> None:
        """Read from here on."""
        self._is_on = True
        steps.contributors.add(self.step_closing)
        lifecycle.before_shutdown(self.read)
        own_cpu.add_source("collectives.device_times", self._take_own_ns)

    def stop(self) -> None:
        """Read no more."""
        self._is_on = False
        steps.contributors.remove(self.step_closing)

    def made_anew(self) -> None:
        """Publish what is left of the former groups: the program has made its default group anew."""
        self._read()
        self._generation += 1
        self._groups = {}

    def step_closing(self, _: steps.Step) -> None:
        """Read where a minute has begun since the last time."""
        minute = _minute()
        if minute != self._minute and not self._is_capturing():
            self._minute = minute
            self.read()

    def read(self) -> None:
        """Publish the collectives that are over and were not published."""
        if self._is_on:
            # Those of a group that is destroyed before the next time.
            with _GROUPS:
                self._groups.update(self._find_groups(self._generation))
            self._read()

    def _read(self) -> None:
        began = own_cpu.clock()
        with _READ:
            collectives, missed = self._entries.read(self._dump())
            if collectives or missed:
                self._publish(collectives[-MOST_ROWS:], missed + max(len(collectives) - MOST_ROWS, 0))
        self._own_ns += own_cpu.clock() - began

    def _publish(self, collectives: list[TimedCollective], left_out: int) -> None:
        names = {name: place for place, name in enumerate(dict.fromkeys(each.group for each in collectives))}
        body = PlainBody(
            {
                attributes.TORCH_DISTRIBUTED_GROUPS: [self._groups.get(name, name) for name in names],
                attributes.TORCH_DISTRIBUTED_COLLECTIVE_GROUP: [names[each.group] for each in collectives],
                attributes.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER: [each.number for each in collectives],
                attributes.TORCH_DISTRIBUTED_COLLECTIVE_OPERATION: [str(each.operation) for each in collectives],
                attributes.TORCH_DISTRIBUTED_COLLECTIVE_DURATION: [each.seconds for each in collectives],
                attributes.TORCH_DISTRIBUTED_COLLECTIVE_CREATED: [each.created for each in collectives],
            }
        )
        body.characters = _ROW * len(collectives)
        publish(self._scope, Timing.ON, body, left_out)

    def _take_own_ns(self) -> float:
        taken, self._own_ns = self._own_ns, 0
        return taken


def publish(scope: Scope, timing: str, body: Any = None, left_out: int | None = None) -> None:
    """Emit an event; without ``body`` it says only whether collectives are timed."""
    scope.event(
        events.TORCH_DISTRIBUTED_COLLECTIVES,
        body=body,
        attributes={
            attributes.TORCH_DISTRIBUTED_TIMING: timing,
            attributes.TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT: left_out or None,
        },
    )


def _minute() -> int:
    return int(time.time()) // INTERVAL
