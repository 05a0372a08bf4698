"""Step time by phase and by rank, of the steps of one loop and attempt whose numbers rise."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core import kept_answers
from otel_rl.report.core.engines import Engines
from otel_rl.report.core.kept_answers import KeptAnswers
from otel_rl.report.core.statistics import Cell, Spread, spreads
from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.tables.steps import IN_NO_STEP, OF_STEP

if TYPE_CHECKING:
    from otel_rl.report.core.lines import Line
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.tables import RunTables

_SLOWEST = 15
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

#: The stretch that is asked for: attempt, loop, and how often its numbers had gone back.
_STRETCH = "p.attempt = ?1 AND loop = ?2 AND restarts = ?3"
# CROSS JOIN makes SQLite look up steps by number first, and only then their process.
_ALL_STEPS = f"FROM step s CROSS JOIN process p USING (process) WHERE {_STRETCH} AND step BETWEEN ?4 AND ?5"
_STEPS = f"{_ALL_STEPS} AND NOT is_root"
_OF_STEP = OF_STEP.format(of="h.")
#: Excludes phases of steps that have not finished, as the length of these steps is unknown.
_PHASES = f"""
FROM phase h CROSS JOIN process p USING (process) WHERE {_STRETCH} AND {_OF_STEP} BETWEEN ?4 AND ?5
AND ({_OF_STEP} = {IN_NO_STEP} OR {_OF_STEP} <= coalesce((
  SELECT max(o.step) FROM step o CROSS JOIN process q ON q.process = o.process
  WHERE q.attempt = ?1 AND o.loop = ?2 AND o.restarts = ?3 AND NOT o.is_root), {IN_NO_STEP}))"""
_RANK = "coalesce(told_rank, p.rank)"
_BY_RANK = f"""
SELECT {_RANK} AS rank, step, count({{value}}), sum({{value}}), min({{value}}), max({{value}}) {_STEPS}
AND {{value}} IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"""
_AT_ONCE = f"""
SELECT p.rank, counts_to, count(*), sum(beside), min(beside), max(beside) {_PHASES}
AND counts_to IS NOT NULL AND beside > 0 GROUP BY 1, 2 ORDER BY 1, 2"""
_PARTS = f"""
WITH parts AS (SELECT name, p.rank AS rank, counts_to AS step, own {_PHASES} AND counts_to IS NOT NULL
               UNION ALL SELECT '{UNCOVERED}', {_RANK}, step, uncovered {_STEPS})
SELECT {{key}}, step, count(*), sum(own), min(own), max(own) FROM parts
GROUP BY {{key}}, step ORDER BY {{key}}, step"""
_INCLUSIVE = f"""
WITH counted AS (SELECT name, is_inner, coalesce(active, seconds) AS spent {_PHASES}
                 AND reward IS NULL AND NOT is_suspended)
SELECT name, is_inner, bucket(spent), count(*), sum(spent), min(spent), max(spent) FROM counted GROUP BY 1, 2, 3"""
_SPREAD = f"""
SELECT bucket({{value}}), count(*), sum({{value}}), min({{value}}), max({{value}}) {_STEPS} GROUP BY 1"""
_RANKS = f"""
SELECT {_RANK} AS rank, min(s.id), count(*), sum(seconds), sum(waited), sum(coalesce(unseen, 0) = 0),
       sum(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds - waited END),
       sum(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds END), sum(unseen > 0), sum(unseen),
       max(source = '{LoopSource.GUESSED}'), max(source = '{LoopSource.LOGGED}'), max(step)
{_STEPS} GROUP BY 1"""
_ROOTS = f"SELECT count(*) {_ALL_STEPS} AND is_root"
_SLOW = f"SELECT seconds, started, s.id, step, trace {_STEPS} ORDER BY seconds DESC, started, s.id LIMIT {_SLOWEST}"
_SLOW_COLLECTIVES = f"""
SELECT operation, group_name, ranks, c.seconds, size, step, {_RANK} AS rank
FROM collective c JOIN step s USING (id) JOIN process p USING (process)
WHERE {_STRETCH} ORDER BY c.seconds DESC, c.rowid LIMIT {_SLOWEST}"""


class SlowStep(NamedTuple):
    """One iteration on one rank."""

    iteration: int
    trace_id: str


class SlowCollective(NamedTuple):
    """One collective that took long; ``seconds`` as its caller saw it, ``size`` in bytes."""

    operation: str
    group: str
    ranks: int | None
    seconds: float
    size: int | None
    iteration: int
    rank: int | None


class _Facts(NamedTuple):
    """What is known of the steps of a rank."""

    rank: int | None
    first_id: int
    steps: int
    seconds: float
    waited: float
    #: Steps whose collectives were all seen, what is left of these without them, and their length.
    seen: int
    own: float | None
    seen_seconds: float | None
    #: Steps with collectives that were not seen, and how many of these there were at least.
    unseen: int | None
    not_seen: int | None
    guessed: int | None
    logged: int | None
    last: int


_merged_facts = kept_answers.sums(1, min, *[operator.add] * 8, *[max] * 3)
_merged_spreads = {keys: kept_answers.sums(keys + 1, operator.add, operator.add, min, max) for keys in (0, 2)}


def _slowest(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (-row[0], *row[1:3]))[:_SLOWEST]


@dataclass(slots=True)
class RankTotals:
    """All steps of one rank, in s.

    ``own`` is what is left of a step without its collectives, where all of these were seen.
    """

    steps: Cell
    own: Cell
    collectives: Cell
    slowest: int = 0


@dataclass
class Steps:
    """The steps of one stretch: of an attempt and a loop, since its numbers have gone back so often.

    Series are by iteration: of ``phases`` by phase, of ``parts`` by phase and rank, of the others by rank.
    """

    tables: RunTables
    attempt: str = ""
    loop: str = ""
    restarts: int = 0

    def __post_init__(self) -> None:
        self._kept = KeptAnswers(self.tables, self._stretch)

    @property
    def _stretch(self) -> tuple[str, str, int]:
        return self.attempt, self.loop, self.restarts

    def grow(self, first: int, last: int | None) -> None:
        """Drop cached results that include the changed steps from ``first`` to ``last``."""
        self._kept.grow(first, last)
        for name in [name for name in vars(self) if isinstance(getattr(Steps, name, None), cached_property)]:
            del vars(self)[name]

    @cached_property
    def phases(self) -> dict[str, Line]:
        """Seconds of a phase without the phases inside it.

        Its calls at once count once; what another phase does at once takes nothing from it.
        """
        return self._kept.lines(_PARTS.format(key="name"))

    @cached_property
    def parts(self) -> dict[tuple[str, int | None], Line]:
        """The same by (phase, rank); with :data:`UNCOVERED` once per step of a rank."""
        return self._kept.lines(_PARTS.format(key="name, rank"))

    @cached_property
    def at_once(self) -> dict[int | None, Line]:
        """Seconds by which the parts are longer than a step, as phases ran beside each other."""
        return self._kept.lines(_AT_ONCE)

    @cached_property
    def waiting(self) -> dict[int | None, Line]:
        """Seconds of a step in collectives."""
        return self._kept.lines(_BY_RANK.format(value="waited"))

    @cached_property
    def gaps(self) -> dict[int | None, Line]:
        """Seconds between the step before and this one."""
        return self._kept.lines(_BY_RANK.format(value="gap"))

    @cached_property
    def between(self) -> dict[int | None, Line]:
        """Those without a wait for data."""
        return self._kept.lines(_BY_RANK.format(value="idle"))

    @cached_property
    def by_rank(self) -> dict[int | None, Line]:
        """Length of the step."""
        return self._kept.lines(_BY_RANK.format(value="seconds"))

    @cached_property
    def own(self) -> dict[int | None, Line]:
        """The part of it outside of collectives, where all of these were seen."""
        return self._kept.lines(_BY_RANK.format(value="(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds - waited END)"))

    @cached_property
    def cpu_waits(self) -> dict[int | None, Line]:
        """Seconds of a step in which its thread was ready to run and had no CPU."""
        return self._kept.lines(_BY_RANK.format(value="(cpu_wait / max(coalesce(cpu_steps, 1), 1))"))

    @cached_property
    def collecting(self) -> dict[int | None, Line]:
        """Seconds of garbage collection of a step."""
        return self._kept.lines(_BY_RANK.format(value="collecting"))

    @cached_property
    def _inclusive(self) -> list[tuple[Any, ...]]:
        return self._kept.rows(_INCLUSIVE, _merged_spreads[2])

    @cached_property
    def inclusive(self) -> dict[str, Spread]:
        """Seconds that one phase took with everything inside it."""
        found = spreads((name, *values) for name, _, *values in self._inclusive)
        return {name: spread for (name,), spread in found.items()}

    @cached_property
    def whole(self) -> dict[str, float]:
        """The same as a sum, with a phase inside of one of its own name counted once."""
        found: dict[str, float] = {}
        for name, is_inner, _, _, seconds, *_ in self._inclusive:
            if not is_inner:
                found[name] = found.get(name, 0.0) + seconds
        return found

    @property
    def waits(self) -> Spread:
        """Seconds that a rank waited for data between two of its steps."""
        return self.inclusive.get(Phase.DATA_WAIT, Spread())

    @cached_property
    def lengths(self) -> Spread:
        """Length of the steps of all ranks."""
        return self._spread("seconds")

    @cached_property
    def uncovered(self) -> Spread:
        """Seconds of each step outside of every phase."""
        return self._spread("uncovered")

    def _spread(self, value: str) -> Spread:
        return spreads(self._kept.rows(_SPREAD.format(value=value), _merged_spreads[0])).get((), Spread())

    @cached_property
    def _facts(self) -> list[_Facts]:
        rows = self._kept.rows(_RANKS, _merged_facts)
        return sorted((_Facts(*row) for row in rows), key=lambda facts: facts.first_id)

    @cached_property
    def ranks(self) -> dict[int | None, RankTotals]:
        """All steps of each rank."""
        return {
            each.rank: RankTotals(
                Cell(each.steps, each.seconds), Cell(each.seen, each.own or 0.0), Cell(each.steps, each.waited)
            )
            for each in self._facts
        }

    @property
    def guessed(self) -> bool:
        """True where neither the program nor a trainer says where they begin and end."""
        return any(each.guessed for each in self._facts)

    @property
    def logged(self) -> bool:
        """True where only what the program logs says so."""
        return any(each.logged for each in self._facts)

    @property
    def last_iteration(self) -> int | None:
        """Number of the last step."""
        return max((each.last for each in self._facts), default=None)

    @property
    def unseen(self) -> Cell:
        """Steps of a rank with collectives that were not seen, and how many of these there were at least."""
        return Cell(sum(each.unseen or 0 for each in self._facts), sum(each.not_seen or 0 for each in self._facts))

    @property
    def seen(self) -> Cell:
        """Length of the steps on each rank whose collectives were all seen."""
        return Cell(sum(each.seen for each in self._facts), sum(each.seen_seconds or 0.0 for each in self._facts))

    @cached_property
    def loops(self) -> int:
        """Steps of all ranks together."""
        return sum(number for (number,) in self._kept.rows(_ROOTS, kept_answers.sums(0, operator.add)))

    @cached_property
    def engines(self) -> Engines:
        """What inference engines did in the steps."""
        return Engines(self.tables, self._stretch)

    @cached_property
    def slowest(self) -> list[SlowStep]:
        """The steps of a rank that took longest."""
        return [SlowStep(step, trace) for *_, step, trace in self._kept.rows(_SLOW, _slowest)]

    @cached_property
    def slowest_collectives(self) -> list[SlowCollective]:
        """The collectives that took longest."""
        return [SlowCollective(*row) for row in self.tables.rows(_SLOW_COLLECTIVES, *self._stretch)]

    def count_slowest(self) -> int:
        """Fill in how often each rank had the most work of its own; the number of steps in which several ranks met."""
        of_step: dict[int, list[tuple[float, int]]] = {}
        for rank, line in self.own.items():
            if rank is not None:
                for step, mean in zip(line.x, line.means, strict=True):
                    of_step.setdefault(step, []).append((mean, rank))
        met = [ranks for ranks in of_step.values() if len(ranks) > 1]
        for totals in self.ranks.values():
            totals.slowest = 0
        for ranks in met:
            self.ranks[max(ranks)[1]].slowest += 1
        return len(met)

    def seconds_at_once(self, since: int = 0) -> float:
        """Return the seconds by which phases that ran at once are longer than the steps from ``since`` on."""
        return sum(
            total for line in self.at_once.values() for x, total in zip(line.x, line.totals, strict=True) if x >= since
        )

    def mean_phases(self, most: int) -> tuple[list[int], dict[str, list[float]], int]:
        """Return the first steps of bins, mean seconds of each phase per step and rank, and the steps of a bin.

        The parts add up to the mean step time, the wait for data before it, and what phases ran at once. There are at
        most ``most`` bins and one.
        """
        every = sorted({x for line in self.phases.values() for x in line.x})
        width = max(-(-len(every) // most), 1)
        firsts = sorted({x // width * width for x in every})
        place = {first: number for number, first in enumerate(firsts)}
        steps = [0.0] * len(firsts)
        if UNCOVERED in self.phases:
            for x, number in zip(self.phases[UNCOVERED].x, self.phases[UNCOVERED].numbers, strict=True):
                steps[place[x // width * width]] += number
        table: dict[str, list[float]] = {}
        for phase in sorted(self.phases, key=lambda phase: phase == UNCOVERED):
            sums = table[phase] = [0.0] * len(firsts)
            for x, total in zip(self.phases[phase].x, self.phases[phase].totals, strict=True):
                sums[place[x // width * width]] += total
        means = {
            phase: [total / (number or 1) for total, number in zip(sums, steps, strict=True)]
            for phase, sums in table.items()
        }
        return firsts, means, width


def counted(steps: Steps, totals: MetricTotals) -> int:
    """Return how many steps the shown attempt made: of short ones that are guessed some have spans."""
    if not steps.guessed:
        # A trainer may count others than those of its loop.
        return steps.loops or round(totals.sum(metrics.RL_TRAIN_STEPS))
    of_attempt = (
        series.value
        for series in totals.of(metrics.RL_TRAIN_STEPS)
        if not steps.attempt or ".".join(map(str, series.process.attempt)) == steps.attempt
    )
    # Guessed steps are numbered from 1, and a process that was killed has not sent its last counts.
    return max(steps.loops, round(sum(of_attempt)), steps.last_iteration or 0)


def whole_seconds(steps: Steps, totals: MetricTotals) -> float:
    """Return the sum of the lengths of all steps on all ranks, in s, with those that have no spans."""
    traced = steps.lengths.cell.total
    if not steps.guessed:
        return traced
    return max(traced, combined(list(totals.of(metrics.RL_LOOP_DURATION))).cell.total)


def from_histograms(totals: MetricTotals) -> dict[str, Spread]:
    """Return durations of steps and phases from their histograms, for a run whose traces were not kept."""
    found = {name: combined(list(totals.of(metric))) for name, metric in _NAMED.items()}
    found |= {
        str(key[0]): combined(series) for key, series in totals.by(metrics.RL_PHASE_DURATION, names.RL_PHASE).items()
    }
    return {name: spread for name, spread in found.items() if spread.cell.count}
