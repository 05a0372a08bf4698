"""Step time by phase and by rank, of the steps of one loop and attempt whose numbers rise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core.engines import Engines
from otel_rl.report.core.lines import Line, of_rows
from otel_rl.report.core.statistics import Cell, Spread, spreads
from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
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
_STEPS = f"""
FROM step s JOIN process p USING (process) WHERE NOT is_root AND step IS NOT NULL AND {_STRETCH}"""
_PHASES = f"FROM phase h JOIN process p USING (process) WHERE {_STRETCH}"
_RANK = "coalesce(told_rank, p.rank)"
_BY_RANK = f"""
SELECT {_RANK} AS rank, step, NULL, count({{value}}), sum({{value}}), min({{value}}), max({{value}}) {_STEPS}
AND {{value}} IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"""
_AT_ONCE = f"""
SELECT p.rank, counts_to, NULL, count(*), sum(beside), min(beside), max(beside) {_PHASES}
AND counts_to IS NOT NULL AND beside > 0 GROUP BY 1, 2 ORDER BY 1, 2"""
_PARTS = f"""
WITH parts AS (SELECT name, p.rank AS rank, counts_to AS step, own {_PHASES} AND counts_to IS NOT NULL
               UNION ALL SELECT '{UNCOVERED}', {_RANK}, step, uncovered {_STEPS})
SELECT {{key}}, step, NULL, count(*), sum(own), min(own), max(own) FROM parts
GROUP BY {{key}}, step ORDER BY {{key}}, step"""
_COUNTED = "reward IS NULL AND NOT is_suspended"
_INCLUSIVE = f"""
WITH counted AS (SELECT name, coalesce(active, seconds) AS spent {_PHASES} AND {_COUNTED})
SELECT name, bucket(spent), count(*), sum(spent), min(spent), max(spent) FROM counted GROUP BY 1, 2"""
_SPREAD = f"""
SELECT bucket({{value}}), count(*), sum({{value}}), min({{value}}), max({{value}}) {_STEPS} GROUP BY 1"""
#: Of a phase inside of one of its own name the outer one counts.
_WHOLE = f"""
WITH RECURSIVE counted AS (SELECT h.rowid AS id, name, trace, span, parent, coalesce(active, seconds) AS spent {_PHASES}
                           AND {_COUNTED}),
around AS (SELECT id, name, trace, parent FROM counted
           UNION ALL SELECT around.id, around.name, o.trace, o.parent FROM around
           JOIN counted o ON o.trace = around.trace AND o.span = around.parent WHERE o.name <> around.name),
inner_ones AS (SELECT DISTINCT around.id FROM around
               JOIN counted o ON o.trace = around.trace AND o.span = around.parent AND o.name = around.name)
SELECT name, sum(spent) AS seconds FROM counted WHERE id NOT IN inner_ones GROUP BY name"""
_NESTED = f"SELECT 1 {_PHASES} AND (h.trace, h.parent) IN (SELECT trace, span FROM phase) LIMIT 1"
_RANKS = f"""
SELECT {_RANK} AS rank, count(*), sum(seconds), sum(waited), sum(unseen IS NULL OR unseen = 0) AS seen,
       sum(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds - waited END) AS own {_STEPS} GROUP BY 1 ORDER BY min(s.id)"""
_FACTS = f"""
SELECT max(source = '{LoopSource.GUESSED}') AS guessed, max(source = '{LoopSource.LOGGED}') AS logged,
       max(step) AS last, sum(unseen > 0) AS unseen, sum(unseen) AS not_seen, sum(coalesce(unseen, 0) = 0) AS seen,
       sum(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds END) AS seen_seconds {_STEPS}"""
_ROOTS = f"SELECT count(*) FROM step s JOIN process p USING (process) WHERE is_root AND {_STRETCH}"
_SLOW = f"SELECT step, trace, seconds {_STEPS} ORDER BY seconds DESC, started, s.id LIMIT {_SLOWEST}"
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
    _asked: dict[str, Any] = field(default_factory=dict)

    @property
    def _stretch(self) -> tuple[str, str, int]:
        return self.attempt, self.loop, self.restarts

    def _lines(self, query: str) -> dict[Any, Line]:
        if query not in self._asked:
            found = of_rows(self.tables.stream(query, *self._stretch))
            self._asked[query] = {key[0] if len(key) == 1 else key: line for key, line in found.items()}
        lines: dict[Any, Line] = self._asked[query]
        return lines

    @property
    def phases(self) -> dict[str, Line]:
        """Seconds of a phase without the phases inside it.

        Its calls at once count once; what another phase does at once takes nothing from it.
        """
        return self._lines(_PARTS.format(key="name"))

    @property
    def parts(self) -> dict[tuple[str, int | None], Line]:
        """The same by (phase, rank); with :data:`UNCOVERED` once per step of a rank."""
        return self._lines(_PARTS.format(key="name, rank"))

    @property
    def at_once(self) -> dict[int | None, Line]:
        """Seconds by which the parts are longer than a step, as phases ran beside each other."""
        return self._lines(_AT_ONCE)

    @property
    def waiting(self) -> dict[int | None, Line]:
        """Seconds of a step in collectives."""
        return self._lines(_BY_RANK.format(value="waited"))

    @property
    def gaps(self) -> dict[int | None, Line]:
        """Seconds between the step before and this one."""
        return self._lines(_BY_RANK.format(value="gap"))

    @property
    def between(self) -> dict[int | None, Line]:
        """Those without a wait for data."""
        return self._lines(_BY_RANK.format(value="idle"))

    @property
    def by_rank(self) -> dict[int | None, Line]:
        """Length of the step."""
        return self._lines(_BY_RANK.format(value="seconds"))

    @property
    def own(self) -> dict[int | None, Line]:
        """The part of it outside of collectives, where all of these were seen."""
        return self._lines(_BY_RANK.format(value="(CASE WHEN coalesce(unseen, 0) = 0 THEN seconds - waited END)"))

    @property
    def collecting(self) -> dict[int | None, Line]:
        """Seconds of garbage collection of a step."""
        return self._lines(_BY_RANK.format(value="collecting"))

    @cached_property
    def inclusive(self) -> dict[str, Spread]:
        """Seconds that one phase took with everything inside it."""
        rows = self.tables.stream(_INCLUSIVE, *self._stretch)
        return {name: spread for (name,), spread in spreads(rows).items()}

    @cached_property
    def whole(self) -> dict[str, float]:
        """The same as a sum, with a phase inside of one of its own name counted once."""
        if self.tables.value(_NESTED, *self._stretch) is None:
            return {name: spread.cell.total for name, spread in self.inclusive.items()}
        return {row["name"]: row["seconds"] for row in self.tables.stream(_WHOLE, *self._stretch)}

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
        return spreads(self.tables.stream(_SPREAD.format(value=value), *self._stretch)).get((), Spread())

    @cached_property
    def ranks(self) -> dict[int | None, RankTotals]:
        """All steps of each rank."""
        return {
            rank: RankTotals(Cell(number, seconds), Cell(seen, own or 0.0), Cell(number, waited))
            for rank, number, seconds, waited, seen, own in self.tables.rows(_RANKS, *self._stretch)
        }

    @cached_property
    def _facts(self) -> Any:
        [facts] = self.tables.rows(_FACTS, *self._stretch)
        return facts

    @property
    def guessed(self) -> bool:
        """True where neither the program nor a trainer says where they begin and end."""
        return bool(self._facts["guessed"])

    @property
    def logged(self) -> bool:
        """True where only what the program logs says so."""
        return bool(self._facts["logged"])

    @property
    def last_iteration(self) -> int | None:
        """Number of the last step."""
        last: int | None = self._facts["last"]
        return last

    @property
    def unseen(self) -> Cell:
        """Steps of a rank with collectives that were not seen, and how many of these there were at least."""
        return Cell(self._facts["unseen"] or 0, self._facts["not_seen"] or 0)

    @property
    def seen(self) -> Cell:
        """Length of the steps on each rank whose collectives were all seen."""
        return Cell(self._facts["seen"] or 0, self._facts["seen_seconds"] or 0.0)

    @cached_property
    def loops(self) -> int:
        """Steps of all ranks together."""
        return int(self.tables.value(_ROOTS, *self._stretch))

    @cached_property
    def engines(self) -> Engines:
        """What inference engines did in the steps."""
        return Engines(self.tables, self._stretch)

    @cached_property
    def slowest(self) -> list[SlowStep]:
        """The steps of a rank that took longest."""
        return [SlowStep(row["step"], row["trace"]) for row in self.tables.rows(_SLOW, *self._stretch)]

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
    found = {name: combined(list(totals.of(metric))) for name, metric in _NAMED.items()}
    found |= {
        str(key[0]): combined(series) for key, series in totals.by(metrics.RL_PHASE_DURATION, names.RL_PHASE).items()
    }
    return {name: spread for name, spread in found.items() if spread.cell.count}
