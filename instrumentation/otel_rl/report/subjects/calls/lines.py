"""Tool and model calls over the steps: duration, time to the first chunk, failures and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import Line, merged, of_rows
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

#: Callees, by rank, that have lines, those with most calls.
_MOST = 2000
_LINE = f"""
WITH often AS (SELECT callee FROM call_by_step GROUP BY callee ORDER BY sum(calls) DESC LIMIT {_MOST})
SELECT kind, name, place, rank, step, second, sum({{number}}), sum({{total}}), min({{low}}), max({{high}})
FROM call_by_step JOIN callee USING (callee)
WHERE {{number}} > 0 AND callee IN often AND kind IN ({{kinds}})
      AND attempt NOT IN (SELECT attempt FROM process WHERE is_superseded)
GROUP BY callee, rank, step, second ORDER BY kind, name, place, rank, step, second"""
_CALLS = f"'{TOOL}', '{MODEL}'"
#: What a line is of -> number of values, sum, smallest and largest of a step.
_VALUES = {
    "seconds": ("calls", "seconds", "shortest", "longest"),
    "occupied": ("calls", "occupied", "occupied", "occupied"),
    "occupied_in_rollouts": ("calls", "occupied_in_rollouts", "occupied_in_rollouts", "occupied_in_rollouts"),
    "first_chunk": ("with_first_chunk", "first_chunk", "soonest", "latest"),
    "waited": ("with_first_chunk", "waited", "waited", "waited"),
    "waited_in_rollouts": ("with_first_chunk", "waited_in_rollouts", "waited_in_rollouts", "waited_in_rollouts"),
    # 1 for a failed or retried call, 0 for another.
    "failed": ("calls", "failed", "failed = calls", "failed > 0"),
    "retried": ("with_retries", "retried", "retried = with_retries", "retried > 0"),
}
_FAILED = """
SELECT kind, name, place, error, count(*) AS calls, min(started) AS first, step AS first_step
FROM call JOIN callee USING (callee) WHERE error <> '' AND kind IN ('tool', 'model')
GROUP BY kind, name, place, error ORDER BY min(call.rowid)"""
_IN_ROLLOUTS = """
SELECT kind, name, place, sum(calls) AS calls, sum(in_rollouts) AS in_rollouts
FROM call_by_step JOIN callee USING (callee) WHERE kind IN ('tool', 'model') GROUP BY kind, name, place"""
_REWARDS = """
WITH failing AS (SELECT DISTINCT trace FROM call JOIN callee USING (callee)
                 WHERE kind = 'tool' AND name = ? AND error <> '')
SELECT trace IN failing AS has_failure, count(*) AS number, avg(reward) AS mean
FROM rollout WHERE kind = 'rollout' AND is_fair AND reward IS NOT NULL GROUP BY 1"""


class Called(NamedTuple):
    """What was called by whom: the place is the server of a model, ``""`` where there is none."""

    kind: str
    name: str
    place: str
    rank: int | None


class Failures(NamedTuple):
    """Failed calls of one tool or model: how many of each error type, and the step of the first one."""

    errors: dict[str, int]
    first_step: int | None


class MeanReward(NamedTuple):
    """Rewards of some trajectories."""

    number: int = 0
    mean: float = 0.0


@asked_once
def of_calls(collected: Collected, value: str) -> dict[Called, Line]:
    """Return a value of the calls of each tool and model, by server and rank; see ``_VALUES`` for what there is."""
    return {Called(*key): line for key, line in _asked(collected, value, _CALLS).items()}


def of_kind(collected: Collected, value: str, kind: str) -> dict[Called, Line]:
    """Return the same for callees of one kind."""
    return {called: line for called, line in of_calls(collected, value).items() if called.kind == kind}


@asked_once
def of_rewards(collected: Collected, value: str) -> dict[tuple[str, int | None], Line]:
    """Return a value of the calls of each reward function, by rank."""
    return {(key[1], key[3]): line for key, line in _asked(collected, value, "'reward'").items()}


def _asked(collected: Collected, value: str, kinds: str) -> dict[tuple[str, str, str, int | None], Line]:
    if collected.only is not None:
        # A view on other steps has no calls: their steps may have the same numbers.
        return {}
    number, total, low, high = _VALUES[value]
    query = _LINE.format(number=number, total=total, low=low, high=high, kinds=kinds)
    return of_rows(collected.tables.stream(query))


@asked_once
def failures(collected: Collected) -> dict[tuple[str, str, str], Failures]:
    """Return the failed calls by kind, name and place."""
    found: dict[tuple[str, str, str], tuple[dict[str, int], int, int | None]] = {}
    for row in collected.tables.stream(_FAILED):
        key = row["kind"], row["name"], row["place"]
        errors, first, step = found.get(key, ({}, row["first"], row["first_step"]))
        errors[row["error"]] = row["calls"]
        earlier = (row["first"], row["first_step"]) if row["first"] < first else (first, step)
        found[key] = errors, *earlier
    return {key: Failures(errors, step) for key, (errors, _, step) in found.items()}


@asked_once
def mostly_in_rollouts(collected: Collected) -> frozenset[tuple[str, str, str]]:
    """Return the tools and models, with their place, of which most calls are inside of a rollout."""
    rows = collected.tables.stream(_IN_ROLLOUTS)
    return frozenset(tuple(row[:3]) for row in rows if 2 * row["in_rollouts"] > row["calls"])


def in_rollouts(collected: Collected, callees: set[tuple[str, str, str]]) -> int:
    """Return how many calls of these are inside of a rollout."""
    return sum(row["in_rollouts"] for row in collected.tables.stream(_IN_ROLLOUTS) if tuple(row[:3]) in callees)


def rewards_of(collected: Collected, tool: str) -> tuple[MeanReward, MeanReward]:
    """Return the rewards of the trajectories in which ``tool`` failed, and of the others."""
    found = {
        row["has_failure"]: MeanReward(row["number"], row["mean"]) for row in collected.tables.rows(_REWARDS, tool)
    }
    return found.get(1, MeanReward()), found.get(0, MeanReward())


@asked_once
def fail_lately(collected: Collected) -> frozenset[tuple[str, str]]:
    """Return kind and name of the tools and models of which a notable share of calls fails since the first failure."""
    found = set()
    for (kind, name), line in merged(of_calls(collected, "failed"), lambda called: (called.kind, called.name)).items():
        first = next((at for at, total in enumerate(line.totals) if total), None)
        failed, number = sum(line.totals[first or 0 :]), sum(line.numbers[first or 0 :])
        if thresholds.is_notable_number(failed, number):
            found.add((kind, name))
    return frozenset(found)
