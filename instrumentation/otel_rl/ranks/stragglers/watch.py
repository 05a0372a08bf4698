"""The thread of a node's first rank that compares the ranks while they run, and what it publishes.

Comparing costs CPU time of the machine that trains. The dearer it is the rarer it is done, see :data:`SHARE`. While all
ranks wait alike it is done for the newest steps only, and more rarely still: see :mod:`~.suspicion`.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber

from otel_rl.core import own_cpu
from otel_rl.core.threads import PeriodicThread
from otel_rl.flight_recorder.reader import group_name
from otel_rl.flight_recorder.recorder import flight
from otel_rl.process import process_identity
from otel_rl.ranks.stragglers.allowance import Allowance
from otel_rl.ranks.stragglers.node import MOST_STEPS, NodeComparison
from otel_rl.ranks.stragglers.persistence import WINDOW, Persistence
from otel_rl.ranks.stragglers.suspicion import Suspicion
from otel_rl.semconv import attributes, events, metrics
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.flight_recorder.ring import Ring
    from otel_rl.ranks.stragglers.comparison import StepComparison
    from otel_rl.ranks.stragglers.persistence import StragglerChange

    Observations = Iterator[tuple[float, dict[str, Any]]]

#: Seconds between two looks, at least and at most.
INTERVAL, LONGEST = 1.0, 10.0
#: Share of one core that comparisons may take while a rank may be late, and while none is.
SHARE, CALM_SHARE = 0.002, 0.0003
#: Seconds of CPU time that may be saved up for the moment when a rank may be late: the first looks come at once.
#: Looks at a rank that is known to be late leave the half of it.
MOST_SAVED = 0.1
#: The same for asking how long the ranks have waited. The first questions cost most: rings are searched, caches cold.
MOST_SAVED_FOR_ASKING = 0.02
#: Steps that are compared at once while no rank may be late.
CALM_STEPS = 2
_NS = 1e9

_scope = Scope("torch_distributed")
_watch: Watch | None = None


def start() -> None:
    """Compare the ranks of this node from here on, where this process is its first rank of several."""
    global _watch
    who = process_identity.current()
    first = who.local_rank == 0 or (who.local_rank is None and who.rank == 0)
    if _watch is None and first and (who.world_size or 0) > 1 and flight.on:
        _watch = Watch()
        _watch.thread.start()
        lifecycle.before_shutdown(stop)


def latest() -> StepComparison | None:
    """Return the comparison of the step that was compared last; None where this process compares none."""
    return _watch.last if _watch is not None else None


def stop() -> None:
    """Compare no more."""
    global _watch
    watch, _watch = _watch, None
    if watch is not None:
        watch.thread.end()


def _forked() -> None:
    """In a forked child: the thread and the ranks are the parent's."""
    global _watch
    _watch = None


class Watch:
    """Looks at the rings of the node; :meth:`look` is what the thread does."""

    def __init__(self) -> None:
        self.thread = PeriodicThread("otel-rl-stragglers", INTERVAL, self.look)
        self._persistence = Persistence()
        self._suspicion = Suspicion()
        self._for_asking = Allowance(CALM_SHARE, MOST_SAVED_FOR_ASKING)
        self._for_comparing = Allowance(SHARE, MOST_SAVED)
        self._asking, self._comparing = own_cpu.CpuStretch(), own_cpu.CpuStretch()
        #: Seconds of the monotonic clock: no comparison before it while no rank may be late.
        self._due_if_calm = 0.0
        #: Steps compared since a rank may be late, and none was found.
        self._in_vain = 0
        self._node: NodeComparison | None = None
        self._ring: Ring | None = None
        self.last: StepComparison | None = None

    def look(self) -> float:
        """Compare the newest steps, where that is due; return the seconds until the next look."""
        ring = flight.ring
        if ring is None:
            return INTERVAL
        if self._node is None or ring is not self._ring:
            self._node, self._ring, self._suspicion = NodeComparison(ring.path), ring, Suspicion()
        self._for_asking.grow(time.monotonic())
        self._asking.begin()
        self._suspicion.add(self._node.waited())
        self._for_asking.spend(self._asking.end() / _NS)
        self._compare(self._node)
        return min(max(INTERVAL, self._for_asking.pause), LONGEST)

    def _compare(self, node: NodeComparison) -> None:
        now = time.monotonic()
        self._for_comparing.grow(now)
        saved = self._for_comparing.left
        is_known = self._persistence.is_open
        may_be_late = is_known or self._suspicion.is_raised
        is_due = saved > (MOST_SAVED / 2 if is_known else 0.0) if may_be_late else now >= self._due_if_calm
        if not is_due:
            return
        self._comparing.begin()
        compared = node.look(MOST_STEPS if may_be_late else CALM_STEPS)
        for comparison in compared:
            self._publish(comparison)
        self._in_vain = 0 if self._persistence.is_open or not may_be_late else self._in_vain + len(compared)
        if self._in_vain >= WINDOW:
            self._suspicion.clear()
        spent = self._comparing.end() / _NS
        self._for_comparing.spend(spent)
        self._due_if_calm = now + spent / CALM_SHARE

    def _publish(self, comparison: StepComparison) -> None:
        if self.last is None:
            self._observe()
        self.last = comparison
        for change in self._persistence.add(comparison):
            _report(change)

    def _observe(self) -> None:
        _scope.observe(metrics.RL_STRAGGLER_LOST_TIME, lambda: self._of_stragglers(share=False))
        _scope.observe(metrics.RL_STRAGGLER_LOST_SHARE, lambda: self._of_stragglers(share=True))
        _scope.observe(metrics.TORCH_DISTRIBUTED_ARRIVAL_SPREAD, self._spreads)
        _scope.observe(metrics.TORCH_DISTRIBUTED_ARRIVAL_WAIT_SHARE, self._wait_share)

    def _of_stragglers(self, *, share: bool) -> Observations:
        for rank, (lost, lost_share) in self._persistence.costs().items():
            yield lost_share if share else lost, {attributes.RL_STRAGGLER_RANK: rank}

    def _spreads(self) -> Observations:
        for group, spread in (self.last.spreads if self.last is not None else {}).items():
            yield spread, {attributes.TORCH_DISTRIBUTED_GROUP_NAME: group_name(group)}

    def _wait_share(self) -> Observations:
        if self.last is not None and self.last.length > 0:
            yield self.last.waited / self.last.length, {}


def _report(change: StragglerChange) -> None:
    straggler = change.straggler
    _scope.event(
        events.RL_STRAGGLER_END if change.is_over else events.RL_STRAGGLER,
        severity=SeverityNumber.INFO if change.is_over else SeverityNumber.WARN,
        attributes={
            attributes.RL_STRAGGLER_RANK: straggler.rank,
            attributes.RL_STRAGGLER_HOST: socket.gethostname(),
            attributes.RL_PHASE: straggler.phase or None,
            attributes.RL_STRAGGLER_LOST_TIME: change.lost,
            attributes.RL_STRAGGLER_LOST_SHARE: change.share,
            attributes.RL_STRAGGLER_ALONE_LOST_TIME: change.alone,
            attributes.RL_STRAGGLER_ALL_LOST_TIME: change.all_lost,
            attributes.RL_STRAGGLER_BESIDE: list(change.beside) or None,
            attributes.RL_STRAGGLER_FIRST_ITERATION: change.since,
            attributes.RL_LOOP_NAME: change.key.loop or None,
            attributes.RL_LOOP_ITERATION: change.iteration,
            attributes.TORCH_DISTRIBUTED_OPERATION: straggler.operation or None,
            attributes.TORCH_DISTRIBUTED_GROUP_NAME: group_name(straggler.group) or None,
        },
    )
    deferral.hand_over()


lifecycle.after_fork_in_child(_forked)
