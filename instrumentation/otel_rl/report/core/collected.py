"""One pass over a run: every record goes to the sections that want it, none is kept."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from otel_rl.report.core import flight_rings, loops, timeline
from otel_rl.report.core.steps import METRICS as STEP_METRICS
from otel_rl.report.core.totals import MetricTotals
from otel_rl.report.subjects.calls import aggregate as calls
from otel_rl.report.subjects.errors import aggregate as problems
from otel_rl.report.subjects.event_loops import aggregate as event_loops
from otel_rl.report.subjects.health import aggregate as health
from otel_rl.report.subjects.memory import aggregate as pressure
from otel_rl.report.subjects.ranks import aggregate as late_ranks
from otel_rl.report.subjects.ranks import collectives
from otel_rl.report.subjects.rewards import aggregate as rewards
from otel_rl.report.subjects.telemetry import aggregate as own_cost
from otel_rl.report.subjects.training.aggregate import Scalars
from otel_rl.report.subjects.trajectories import aggregate as trajectories
from otel_rl.report.subjects.trajectories import conversations
from otel_rl.report.subjects.weight_syncs import aggregate as weight_syncs
from otel_rl.semconv import metrics
from otel_rl.store.reader import Log, Reader, Span

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.report.core.steps import Steps
    from otel_rl.store.reader import Record

_TIMELINES = 3
#: Trajectories whose spans are listed.
_LISTED_TRACES = 12
_OWN_METRICS = (metrics.RL_TRAIN_STEPS, metrics.RL_TRAIN_TOKENS, metrics.RL_SAMPLE_SAMPLES)


class Collected:
    """Everything the page shows, from all records of ``reader``, and PyTorch's dumps at ``torch_dumps``."""

    def __init__(self, reader: Reader, torch_dumps: Path | None = None) -> None:
        self.reader = reader
        self._torch_dumps = torch_dumps
        #: Of a view: the steps that it is on.
        self.only: Steps | None = None
        self.loops = loops.Loops()
        #: Attempts that a later one follows.
        self.superseded: frozenset[tuple[int, ...]] = frozenset()
        self.scalars = Scalars()
        self.calls = calls.Calls()
        self.rewards = rewards.Rewards()
        self.trajectories = trajectories.Trajectories()
        self.conversations = conversations.Conversations()
        self.problems = problems.Problems()
        self.health = health.HealthReplay()
        self.own_cost = own_cost.OwnCost()
        self.pressure = pressure.Pressure()
        self.weight_syncs = weight_syncs.WeightSyncs()
        self.event_loops = event_loops.EventLoopBlocks()
        self.late_ranks = late_ranks.LateRanks()
        self.totals = MetricTotals(
            (
                *_OWN_METRICS,
                *STEP_METRICS,
                *calls.METRICS,
                *collectives.METRICS,
                *rewards.METRICS,
                *problems.METRICS,
                *pressure.METRICS,
                *weight_syncs.METRICS,
                *event_loops.METRICS,
            )
        )
        self.rings = flight_rings.FlightRings()
        self.slowest_step: list[timeline.Timeline] = []
        self.slowest_rollouts: list[timeline.Timeline] = []
        #: Spans of trajectories by trace, of those that are listed.
        self.trajectory_spans: dict[str, timeline.Timeline] = {}

    @property
    def steps(self) -> Steps:
        """The steps that the page shows: the last stretch of the main loop, or the one of :meth:`of`."""
        return self.only or self.loops.main

    def of(self, steps: Steps) -> Collected:
        """A view on nothing but these steps."""
        view = copy(self)
        view.only, view.calls, view.rewards = steps, calls.Calls(), rewards.Rewards()
        view.rings = flight_rings.FlightRings()
        return view

    def read(self, advance: Callable[[int], object]) -> Collected:
        """Read it all; ``advance`` is told the bytes read.

        Raises:
            UnusableInput: not one of the files can be read.
        """
        for record in self.reader.records(advance):
            self._add(record)
        self.totals.close()
        self.loops.close()
        self.event_loops.close()
        self.superseded = self.loops.superseded(process.attempt for process in self.reader.processes)
        self.calls.leave_out(self.superseded)
        self.rewards.leave_out(self.superseded)
        self._read_timelines()
        self.rings = flight_rings.read(self.reader.source, self._torch_dumps)
        return self

    def _add(self, record: Record) -> None:
        if isinstance(record, Span):
            self.loops.add(record)
            self.calls.add(record)
            self.rewards.add_span(record)
            self.problems.add_span(record)
            self.health.add_span(record)
            self.own_cost.add_span(record)
        elif isinstance(record, Log):
            self.scalars.add_log(record)
            self.rewards.add_log(record)
            self.trajectories.add_log(record)
            self.conversations.add_log(record)
            self.problems.add_log(record)
            self.health.add_log(record)
            self.own_cost.add_log(record)
            self.pressure.add_log(record)
            self.weight_syncs.add_log(record)
            self.event_loops.add_log(record)
            self.late_ranks.add_log(record)
        else:
            self.totals.add(record)
            self.scalars.add_point(record)
            self.health.add_point(record)
            self.pressure.add_point(record)

    def _read_timelines(self) -> None:
        slowest = self.steps.slowest.items()[:1]
        rollouts = self.calls.rollouts.slowest.items()[:_TIMELINES]
        listed = self.trajectories.traces(_LISTED_TRACES)
        wanted = {*(one.trace_id for one in slowest), *(one.trace_id for one in rollouts), *listed} - {""}
        traces = timeline.collect(self.reader.traces(wanted)) if wanted else {}
        of_steps = [timeline.of_step(str(one.iteration), traces.get(one.trace_id, [])) for one in slowest]
        self.slowest_step = [one for one in of_steps if one is not None]
        of_rollouts = [timeline.of_rollout(one.name, traces.get(one.trace_id, [])) for one in rollouts]
        self.slowest_rollouts = [one for one in of_rollouts if one is not None]
        of_trajectories = {trace: timeline.of_rollout(trace, traces.get(trace, [])) for trace in listed}
        self.trajectory_spans = {trace: one for trace, one in of_trajectories.items() if one is not None}
        for trace in listed:
            self.conversations.add_trace(trace, traces.get(trace, []))
