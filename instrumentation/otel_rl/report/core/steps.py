"""Step time by phase and by rank, from the spans of the step traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core.engines import Engines
from otel_rl.report.core.occupied import Stretches
from otel_rl.report.core.statistics import BinnedSeries, Cell, Largest, Spread
from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics, spans
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.reader import Span

_PHASE_CELLS = 12_000
_RANK_CELLS = 20_000
_PART_CELLS = 60_000
_SLOWEST = 15
_OPEN_PARENTS = 200_000

_NAMED = {
    "step": metrics.RL_LOOP_DURATION,
    Phase.SAMPLE: metrics.RL_SAMPLE_DURATION,
    Phase.REWARD: metrics.RL_REWARD_DURATION,
    Phase.TRAIN: metrics.RL_TRAIN_DURATION,
    Phase.SYNC: metrics.RL_SYNC_DURATION,
}
METRICS = (*_NAMED.values(), metrics.RL_PHASE_DURATION)

UNCOVERED = "uncovered"
"""Name for a rank's step time outside of every phase."""

BETWEEN = "between"
"""Name for the time between two steps of a rank in which no wait for data was marked."""


@dataclass(frozen=True, slots=True)
class SlowStep:
    """One iteration on one rank."""

    iteration: int
    trace_id: str


@dataclass(frozen=True, slots=True)
class SlowCollective:
    """One collective that took long; ``seconds`` as its caller saw it, ``size`` in bytes."""

    operation: str
    group: str
    ranks: int | None
    seconds: float
    size: int | None
    iteration: int
    rank: int | None


@dataclass(slots=True)
class RankTotals:
    """All steps of one rank, in s.

    ``own`` is what is left of a step without its collectives, where all of these were seen.
    """

    steps: Cell
    own: Cell
    collectives: Cell
    slowest: int = 0


class Steps:
    """Aggregates ``rl.rank.step`` and the phases below it; memory depends on neither steps nor ranks."""

    def __init__(self) -> None:
        #: Seconds of a phase without the phases inside it, by iteration and phase. Its calls at once count once; what
        #: another phase does at once takes nothing from it.
        self.phases = BinnedSeries(_PHASE_CELLS)
        #: The same by iteration and (phase, rank); with :data:`UNCOVERED` once per step of a rank.
        self.parts = BinnedSeries(_PART_CELLS)
        #: Seconds by which the parts are longer than a step, as phases ran beside each other, by iteration and rank.
        self.at_once = BinnedSeries(_RANK_CELLS)
        #: Seconds of a step in collectives, by iteration and rank.
        self.waiting = BinnedSeries(_RANK_CELLS)
        #: Seconds that one phase took with everything inside it.
        self.inclusive: dict[str, Spread] = {}
        #: Seconds that a rank waited for data between two of its steps.
        self.waits = Spread()
        #: Seconds between the step before and this one, by iteration and rank; and those without a wait for data.
        self.gaps = BinnedSeries(_RANK_CELLS)
        self.between = BinnedSeries(_RANK_CELLS)
        #: Seconds of each step outside of every phase.
        self.uncovered = Spread()
        #: Length of the step on each rank, by iteration and rank.
        self.by_rank = BinnedSeries(_RANK_CELLS)
        #: The part of it outside of collectives, where all of these were seen, by iteration and rank.
        self.own = BinnedSeries(_RANK_CELLS)
        #: Seconds of garbage collection of a step, by iteration and rank.
        self.collecting = BinnedSeries(_RANK_CELLS)
        self.engines = Engines()
        self.lengths = Spread()
        self.ranks: dict[int | None, RankTotals] = {}
        self.slowest: Largest[SlowStep] = Largest(_SLOWEST)
        self.slowest_collectives: Largest[SlowCollective] = Largest(_SLOWEST)
        self.loops = 0
        #: True where neither the program nor a trainer says where they begin and end.
        self.guessed = False
        #: True where only what the program logs says so.
        self.logged = False
        #: Steps of a rank with collectives that were not seen, and how many of these there were at least.
        self.unseen = Cell()
        #: Length of the steps on each rank whose collectives were all seen.
        self.seen = Cell()
        self.last_iteration: int | None = None
        #: The same as a sum, with a phase inside of one of its own name counted once.
        self.whole: dict[str, float] = {}
        #: Seconds of the phases inside of a span: those at once, of several threads or tasks, are time of it once.
        self._inside: dict[tuple[str, str], float] = {}
        #: Where these lie, and where those of each name do.
        self._stretches = Stretches()
        self._stretches_of_names: dict[tuple[str, str], set[str]] = {}
        #: Process -> seconds in which it waited for data since its last step, outside of every step.
        self._waited: dict[str, float] = {}
        #: Process -> its last step, and its end in ns since the epoch.
        self._last: dict[str, tuple[int, int]] = {}
        #: Seconds of the phases inside of a span, by their names.
        self._named_inside: dict[tuple[str, str], dict[str, float]] = {}

    def add(self, span: Span) -> None:
        """Take in a span; others than steps and phases are ignored."""
        if span.name == spans.RL_RANK_STEP.type:
            self._add_rank_step(span)
        elif span.name == spans.RL_LOOP.type:
            self.loops += 1
        elif names.RL_PHASE in span.attributes:
            self._add_phase(span)

    def _add_phase(self, span: Span) -> None:
        phase = str(span.attributes[names.RL_PHASE])
        parent = (span.trace_id, span.parent_id)
        more, of_phase = self._covered(parent, phase, span)
        own = self._without_children(span, of_phase)
        if names.RL_REWARD_NAME not in span.attributes and names.RL_SUSPENDED not in span.attributes:
            whole = span.attributes.get(names.RL_ACTIVE_DURATION)
            seconds = float(whole) if isinstance(whole, (int, float)) else span.seconds
            self.inclusive.setdefault(phase, Spread()).add(seconds)
            self._add_whole(span, phase, seconds)
            if phase == Phase.DATA_WAIT:
                self.waits.add(seconds)
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        # Rollouts run beside each other and in traces of their own: their phases are no parts of the step's time.
        if iteration is not None and names.RL_ROLLOUT_ID not in span.attributes:
            self.phases.add(iteration, phase, own)
            self.parts.add(iteration, (phase, span.process.rank), own)
            if of_phase > more:
                self.at_once.add(iteration, span.process.rank, of_phase - more)
        elif iteration is None and phase == Phase.DATA_WAIT:
            # It ends before the step that it waits for, which is read later.
            self._waited[span.process.key] = self._waited.get(span.process.key, 0.0) + own

    def _covered(self, parent: tuple[str, str], phase: str, span: Span) -> tuple[float, float]:
        """Return the seconds of a phase that no earlier one in its parent covers, and that none of its name does."""
        more = self._stretches.add(parent, span.start, span.end)
        of_phase = self._stretches.add((*parent, phase), span.start, span.end)
        self._inside[parent] = self._inside.get(parent, 0.0) + more
        self._stretches_of_names.setdefault(parent, set()).add(phase)
        if len(self._inside) > _OPEN_PARENTS:
            self._forget(next(iter(self._inside)))
        return more, of_phase

    def _forget(self, parent: tuple[str, str]) -> float:
        """Forget the phases inside of a span, which has ended; their seconds."""
        self._stretches.forget(parent)
        for phase in self._stretches_of_names.pop(parent, ()):
            self._stretches.forget((*parent, phase))
        return self._inside.pop(parent, 0.0)

    def _add_whole(self, span: Span, phase: str, seconds: float) -> None:
        inside = self._named_inside.pop((span.trace_id, span.span_id), {})
        self.whole[phase] = self.whole.get(phase, 0.0) + max(seconds - inside.pop(phase, 0.0), 0.0)
        around = self._named_inside.setdefault((span.trace_id, span.parent_id), {})
        for name, more in (*inside.items(), (phase, seconds)):
            around[name] = around.get(name, 0.0) + more
        if len(self._named_inside) > _OPEN_PARENTS:
            del self._named_inside[next(iter(self._named_inside))]

    def _without_children(self, span: Span, seconds: float) -> float:
        # A span ends after the spans inside it, so these were written, and read, before it.
        return max(seconds - self._forget((span.trace_id, span.span_id)), 0.0)

    def _add_rank_step(self, span: Span) -> None:
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        if iteration is None:
            return
        self.guessed |= span.attributes.get(names.RL_LOOP_SOURCE) == LoopSource.GUESSED
        self.logged |= span.attributes.get(names.RL_LOOP_SOURCE) == LoopSource.LOGGED
        rank = int_or_none(span.attributes.get(names.RL_RANK))
        rank = span.process.rank if rank is None else rank
        waited = _seconds(span, names.TORCH_DISTRIBUTED_WAIT_TIME) + _seconds(span, names.TORCH_DISTRIBUTED_HOST_TIME)
        collectives = min(waited, span.seconds)
        # Before the rank's work it waited for data, below the root: no part of this span.
        waited_below = self._forget((span.trace_id, span.parent_id))
        self._add_gap(span, iteration, rank, waited_below)
        for parent in (span.span_id, span.parent_id):
            self._named_inside.pop((span.trace_id, parent), None)
        uncovered = self._without_children(span, span.seconds)
        self.uncovered.add(uncovered)
        self.phases.add(iteration, UNCOVERED, uncovered)
        self.parts.add(iteration, (UNCOVERED, rank), uncovered)
        self.waiting.add(iteration, rank, collectives)
        self.lengths.add(span.seconds)
        self.by_rank.add(iteration, rank, span.seconds)
        totals = self.ranks.setdefault(rank, RankTotals(Cell(), Cell(), Cell()))
        totals.steps.add(span.seconds)
        totals.collectives.add(collectives)
        self.slowest.add(span.seconds, SlowStep(iteration, span.trace_id))
        self.last_iteration = max(iteration, self.last_iteration or 0)
        collecting = span.attributes.get(names.RL_LOOP_GC_TIME)
        if isinstance(collecting, float):
            self.collecting.add(iteration, rank, collecting)
        self.engines.add(span, iteration)
        self._add_collectives(span, iteration, rank)
        unseen = int_or_none(span.attributes.get(names.TORCH_DISTRIBUTED_UNSEEN))
        if unseen:
            self.unseen.add(unseen)
        else:
            self.seen.add(span.seconds)
            self.own.add(iteration, rank, span.seconds - collectives)
            totals.own.add(span.seconds - collectives)

    def _add_gap(self, span: Span, iteration: int, rank: int | None, waited_below: float) -> None:
        """Add what lies between the step before and this one."""
        key = span.process.key
        waited = self._waited.pop(key, 0.0)
        if waited:
            self.phases.add(iteration, Phase.DATA_WAIT, waited)
            self.parts.add(iteration, (Phase.DATA_WAIT, rank), waited)
        before, ended = self._last.get(key, (0, 0))
        self._last[key] = iteration, span.end
        if iteration == before + 1 and span.start >= ended > 0:
            gap = (span.start - ended) / 1e9
            self.gaps.add(iteration, rank, gap)
            self.between.add(iteration, rank, max(gap - waited - waited_below, 0.0))

    def _add_collectives(self, span: Span, iteration: int, rank: int | None) -> None:
        for event in span.events:
            seconds = event.attributes.get(names.TORCH_DISTRIBUTED_DURATION)
            if event.name != events.TORCH_DISTRIBUTED_COLLECTIVE.name or not isinstance(seconds, (int, float)):
                continue
            get = event.attributes.get
            collective = SlowCollective(
                operation=str(get(names.TORCH_DISTRIBUTED_OPERATION, "?")),
                group=str(get(names.TORCH_DISTRIBUTED_GROUP_NAME, "")),
                ranks=int_or_none(get(names.TORCH_DISTRIBUTED_GROUP_SIZE)),
                seconds=float(seconds),
                size=int_or_none(get(names.TORCH_DISTRIBUTED_MESSAGE_SIZE)),
                iteration=iteration,
                rank=rank,
            )
            self.slowest_collectives.add(collective.seconds, collective)

    def count_slowest(self) -> int:
        """Fill in how often each rank had the most work of its own; the number of bins in which several ranks met."""
        in_bin: dict[int, list[tuple[float, int]]] = {}
        for rank, line in self.own.lines().items():
            if rank is not None:
                for first, cell in line:
                    in_bin.setdefault(first, []).append((cell.mean, rank))
        met = [cells for cells in in_bin.values() if len(cells) > 1]
        for totals in self.ranks.values():
            totals.slowest = 0
        for cells in met:
            self.ranks[max(cells)[1]].slowest += 1
        return len(met)

    def seconds_at_once(self, since: int = 0) -> float:
        """Return the seconds by which phases that ran at once are longer than the steps from ``since`` on."""
        lines = self.at_once.lines().values()
        return sum(cell.total for line in lines for first, cell in line if first >= since)

    def mean_phases(self, most: int) -> tuple[list[int], dict[str, list[float]], int]:
        """Return the first steps of bins, mean seconds of each phase per step and rank, and the steps of a bin.

        The parts add up to the mean step time, the wait for data before it, and what phases ran at once. There are at
        most ``most`` bins and one.
        """
        bins = self.phases.bins()
        width = self.phases.width * max(-(-len(bins) // most), 1)
        firsts = sorted({first // width * width for first in bins})
        sums: dict[str, dict[int, Cell]] = {}
        for phase, line in self.phases.lines().items():
            for first, cell in line:
                sums.setdefault(phase, {}).setdefault(first // width * width, Cell()).merge(cell)
        steps = {first: cell.count for first, cell in sums.get(UNCOVERED, {}).items()}
        table: dict[str, list[float]] = {}
        for phase in sorted(sums, key=lambda phase: phase == UNCOVERED):
            table[phase] = [
                sums[phase][first].total / steps.get(first, 1) if first in sums[phase] else 0.0 for first in firsts
            ]
        return firsts, table, width


def counted(steps: Steps, totals: MetricTotals) -> int:
    """Return how many steps the run made: of short ones that are guessed some have spans."""
    number = round(totals.sum(metrics.RL_TRAIN_STEPS))
    # A trainer may count others than those of its loop.
    return max(steps.loops, number) if steps.guessed else steps.loops or number


def whole_seconds(steps: Steps, totals: MetricTotals) -> float:
    """Return the sum of the lengths of all steps on all ranks, in s, with those that have no spans."""
    traced = steps.lengths.cell.total
    if not steps.guessed:
        return traced
    return max(traced, combined(list(totals.of(metrics.RL_LOOP_DURATION))).cell.total)


def from_histograms(totals: MetricTotals) -> dict[str, Spread]:
    """Return durations of steps and phases from their histograms, for a run whose traces were not kept."""
    spreads = {name: combined(list(totals.of(metric))) for name, metric in _NAMED.items()}
    spreads |= {
        str(key[0]): combined(series) for key, series in totals.by(metrics.RL_PHASE_DURATION, names.RL_PHASE).items()
    }
    return {name: spread for name, spread in spreads.items() if spread.cell.count}


def _seconds(span: Span, attribute: str) -> float:
    value = span.attributes.get(attribute)
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0
