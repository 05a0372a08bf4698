"""The samples of the run: how many there were, what became of them, and those that are worth a look.

A run has millions. Listed are failed and suspect ones, the slowest, those with the lowest and the highest reward, and
some of every part of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.statistics import Spread, spreads
from otel_rl.report.subjects.trajectories import groups, pass_at_k
from otel_rl.report.subjects.trajectories.side_calls import JUDGE, TOOL_MODEL, SideTotals
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.tables import samples

if TYPE_CHECKING:
    import sqlite3

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.tables import RunTables
    from otel_rl.store.tables.samples import Row

#: Rows listed of each kind, and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 40, 80
TRAINED, NOT_TRAINED = "trained", "not trained"
#: Outcomes whose durations are shown, in this order.
_OUTCOMES = (TRAINED, NOT_TRAINED, Status.FINISHED, Status.DISCARDED, Status.FAILED, Status.CANCELLED)
#: Steps of which the groups are listed.
_STEPS = 1000

_STATUS = f"coalesce(status, '{Status.FINISHED}')"
_BEGUN = "SELECT coalesce(sum(started), 0), coalesce(sum(left_out), 0) FROM ended"
_COUNTS = """
SELECT count(*) AS rows, count(trained) AS judged, coalesce(sum(trained), 0) AS trained, count(success) AS tried,
       coalesce(sum(success), 0) AS succeeded, coalesce(sum(suspect), 0) AS suspect, count(reward) AS rewarded,
       coalesce(sum(reward), 0.0) AS rewards, count(CASE WHEN suspect THEN reward END) AS suspect_rewarded,
       coalesce(sum(CASE WHEN suspect THEN reward END), 0.0) AS suspect_rewards FROM sample"""
_BY_STATUS = f"SELECT {_STATUS}, count(*) FROM sample GROUP BY 1"
_BY_REASON = (
    "SELECT discard_reason, count(*) FROM sample WHERE discard_reason <> '' GROUP BY 1 ORDER BY 2 DESC, min(sample)"
)
_DURATIONS = f"""
WITH outcomes AS (SELECT {_STATUS} AS outcome, seconds FROM sample
  UNION ALL SELECT CASE trained WHEN 1 THEN '{TRAINED}' ELSE '{NOT_TRAINED}' END, seconds FROM sample
            WHERE trained IS NOT NULL)
SELECT outcome, bucket(seconds), count(*), sum(seconds), min(seconds), max(seconds) FROM outcomes
WHERE seconds IS NOT NULL GROUP BY 1, 2"""
_AGES = """
WITH aged AS (SELECT age, seconds, max(age - seconds, 0.0) AS waited FROM sample
              WHERE age IS NOT NULL AND seconds IS NOT NULL)
SELECT '{value}', bucket({value}), count(*), sum({value}), min({value}), max({value}) FROM aged GROUP BY 2"""
_LISTED = "SELECT sample.*, rank FROM sample JOIN process USING (process) WHERE {where} ORDER BY {order} LIMIT ?"
_FAILED = f"(status IN ('{Status.FAILED}', '{Status.CANCELLED}') OR suspect)"
#: Kind -> condition and order; the latest of those that are alike.
_KINDS = {
    "failed": (_FAILED, "time DESC, sample DESC"),
    "slowest": ("seconds IS NOT NULL", "seconds DESC, time DESC, sample DESC"),
    "lowest": ("reward IS NOT NULL", "reward, time DESC, sample DESC"),
    "highest": ("reward IS NOT NULL", "reward DESC, time DESC, sample DESC"),
}
_EVERY = """
SELECT * FROM (SELECT sample.*, rank, row_number() OVER (ORDER BY time, sample) AS place
               FROM sample JOIN process USING (process)) WHERE (place - 1) % ? = 0"""


@dataclass(slots=True)
class Totals:
    """Counts of all samples.

    Attributes:
        judged: samples of which it is known whether they were trained on.
        tried: samples of which the program says whether they succeeded, and ``succeeded`` those that did.
        left_out: samples that ended and have no row.
        durations: seconds by outcome: the statuses, and whether a sample was trained on.
        ages: seconds of those whose age is known: when the trainer took them; ``in_flight`` being made, and ``waits``
            waiting before or after that.
        judges_of_batches: of rewards that score several trajectories at once, in steps with spans.
    """

    started: int
    ended: int
    left_out: int
    judged: int
    trained: int
    tried: int
    succeeded: int
    suspect: int
    rewarded: int
    rewards: float
    suspect_rewarded: int
    suspect_rewards: float
    by_status: dict[str, int]
    by_reason: dict[str, int]
    durations: dict[str, Spread]
    ages: Spread
    in_flight: Spread
    waits: Spread
    judge: SideTotals
    tool_model: SideTotals

    @property
    def mean_reward(self) -> float | None:
        """Mean of all rewards."""
        return self.rewards / self.rewarded if self.rewarded else None

    @property
    def mean_reward_without(self) -> float | None:
        """The same without suspect ones."""
        others = self.rewarded - self.suspect_rewarded
        return (self.rewards - self.suspect_rewards) / others if others > 0 else None


@asked_once
def of_run(collected: Collected) -> Totals:
    """Return the counts of the run."""
    tables = collected.tables
    [(started, left_out)] = tables.rows(_BEGUN)
    [counts] = tables.rows(_COUNTS)
    found = {key: spread for (key,), spread in spreads(tables.stream(_DURATIONS)).items()}
    return Totals(
        started=started,
        ended=counts["rows"] + left_out,
        left_out=left_out,
        **{name: counts[name] for name in counts.keys()[1:]},
        by_status=_counts(tables.rows(_BY_STATUS)),
        by_reason=_counts(tables.rows(_BY_REASON)),
        durations={outcome: found[outcome] for outcome in _OUTCOMES if outcome in found},
        ages=_ages(tables, "age"),
        in_flight=_ages(tables, "seconds"),
        waits=_ages(tables, "waited"),
        judge=side_calls_of(tables, JUDGE),
        tool_model=side_calls_of(tables, TOOL_MODEL),
    )


def _counts(rows: list[sqlite3.Row]) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}


def _ages(tables: RunTables, value: str) -> Spread:
    return spreads(tables.stream(_AGES.format(value=value))).get((value,), Spread())


def side_calls_of(tables: RunTables, columns: tuple[str, ...]) -> SideTotals:
    """Return sums over all samples of the calls in these columns."""
    sums = ", ".join(f"coalesce(sum({samples.COLUMNS[name][0]}), 0)" for name in columns)
    return SideTotals(*map(int, tables.rows(f"SELECT {sums} FROM sample")[0]))


@asked_once
def _listed(collected: Collected, kind: str) -> list[int]:
    where, order = _KINDS[kind]
    return [row["sample"] for row in collected.tables.stream(_LISTED.format(where=where, order=order), OF_A_KIND)]


@asked_once
def chosen(collected: Collected) -> dict[str, Row]:
    """Return the rows that are listed by a key of the page: the failed ones first, in the order of their iterations."""
    tables, every = collected.tables, 1
    while -(-tables.value("SELECT count(*) FROM sample") // every) > OF_ALL_PARTS:
        every *= 2
    rows = {row.sample: row for row in tables.samples(_EVERY, every)}
    for where, order in _KINDS.values():
        rows |= {row.sample: row for row in tables.samples(_LISTED.format(where=where, order=order), OF_A_KIND)}
    ordered = sorted(rows.values(), key=_place)
    return {f"trajectory-{number}": row for number, row in enumerate(ordered, 1)}


def traces(collected: Collected, most: int) -> list[str]:
    """Return traces of rows whose spans are worth a look: failed, slowest, of the lowest reward."""
    kinds = [_listed(collected, kind) for kind in ("failed", "slowest", "lowest")]
    numbers = [number for turn in zip(*(kind[:most] for kind in kinds), strict=False) for number in turn]
    numbers += [number for kind in kinds for number in kind]
    by_number = {row.sample: row for row in chosen(collected).values()}
    found = (by_number[number].get(names.RL_ROLLOUT_TRACE_ID) for number in numbers)
    return list(dict.fromkeys(str(trace) for trace in found if trace))[:most]


def as_json(collected: Collected) -> dict[str, Any]:
    """Return all counts and the rows that are listed, for programs."""
    totals = of_run(collected)
    return {
        "started": totals.started,
        "ended": totals.ended,
        "by_status": totals.by_status,
        "discarded_because": totals.by_reason,
        "trained": totals.trained if totals.judged else None,
        "succeeded": totals.succeeded if totals.tried else None,
        "pass_at_k": _solved(collected, evaluation=False),
        "evaluation_pass_at_k": _solved(collected, evaluation=True),
        "suspect": totals.suspect,
        "judge": totals.judge.as_json(),
        "tool_model": totals.tool_model.as_json(),
        **_of_groups(collected, totals),
        "durations": {outcome: _spread(spread) for outcome, spread in totals.durations.items()},
        "age": _spread(totals.ages) if totals.ages.cell.count else None,
        "in_flight": _spread(totals.in_flight) if totals.in_flight.cell.count else None,
        "waited": _spread(totals.waits) if totals.waits.cell.count else None,
        "without_row": totals.left_out,
        "rows": [row.as_json() for row in chosen(collected).values()],
    }


def _solved(collected: Collected, *, evaluation: bool) -> dict[str, float] | None:
    solved = pass_at_k.solved(collected, evaluation=evaluation)
    return None if solved is None else solved._asdict()


def _of_groups(collected: Collected, totals: Totals) -> dict[str, Any]:
    of_run = groups.of_run(collected)
    checked, shift = of_run.checked, of_run.shift
    return {
        "groups": of_run.compared,
        "dead_groups": of_run.dead,
        "trained_tokens": of_run.tokens,
        "effective_tokens": of_run.effective,
        "steps": [
            {
                "step": step.iteration,
                "groups": step.groups,
                "dead_groups": step.dead,
                "trained_tokens": step.tokens,
                "effective_tokens": step.effective,
            }
            for step in of_run.steps[-_STEPS:]
        ],
        "advantages": {
            "checked": checked.samples,
            "not_known": checked.unknown,
            "differing": checked.differing,
            "first": None if checked.first is None else checked.first._asdict(),
        },
        "bias": {
            "samples": totals.suspect,
            "mean_reward": totals.mean_reward,
            "mean_reward_without": totals.mean_reward_without,
            "others_in_their_groups": shift.samples,
            "advantage_of_others": shift.advantage if shift.samples else None,
        },
    }


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "number": spread.cell.count,
        "mean": spread.cell.mean,
        "median": spread.quantile(0.5),
        "p95": spread.quantile(0.95),
        "longest": spread.cell.maximum,
    }


def _place(row: Row) -> tuple[bool, bool, int, int, str]:
    return (
        not row.is_failed,
        row.iteration is None,
        row.iteration or 0,
        row.rank or 0,
        str(row.get(names.RL_ROLLOUT_ID)),
    )
