"""Calls and rollouts that were cancelled: by the program, or by a time limit of it.

No span tells these apart: ``asyncio.wait_for`` and ``task.cancel()`` raise the same exception in what they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.tables.load import MODEL, TOOL
from otel_rl.store.tables.operations import CANCELLED

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

CALLS, ROLLOUTS = "cancelled_calls", "cancelled_rollouts"
_OF_ROLLOUTS = f"SELECT trace FROM sample WHERE status = '{Status.CANCELLED}' AND trace IS NOT NULL"
#: Without the spans that are there because of how their rollout ended.
_OF_CALLS = f"""
SELECT kind, name, avg(trace IN ({_OF_ROLLOUTS})) AS explained, min(step) AS first
FROM calls WHERE is_fair AND outcome = '{CANCELLED}' GROUP BY kind, name"""
_FIRST = f"SELECT min(step) FROM sample WHERE status = '{Status.CANCELLED}' AND NOT is_pending"
_LIMIT = "what it waits for, and whether the time limit around it fits"


def findings(collected: Collected) -> list[Finding]:
    """Return tools and models whose calls were cancelled in rollouts that were not, and cancelled rollouts."""
    spans = {(row["kind"], row["name"]): (row["explained"], row["first"]) for row in collected.tables.rows(_OF_CALLS)}
    found = []
    for kind, callees in ((TOOL, statistics.tools(collected)), (MODEL, statistics.models(collected))):
        for callee in callees:
            explained, first = spans.get((kind, callee.name), (0.0, None))
            number = round(callee.cancelled * (1 - explained))
            subject = callee.name if kind == TOOL else sentences.model(callee.name)
            share = f"{human.number(number)} of {human.amount(callee.number, 'call')} of {kind} {subject}"
            if thresholds.is_notable_number(number, callee.number):
                cost = number / callee.number
                found.append(_finding(CALLS, Severity.WARNING, share, (f"{kind}s", subject), cost, first))
    return [*found, *_rollouts(collected)]


def check(collected: Collected) -> Check:
    """Return how many calls were cancelled."""
    calls = [*statistics.tools(collected), *statistics.models(collected)]
    number, seen = sum(one.number for one in calls), sum(one.cancelled for one in calls)
    what, without = "cancelled calls of tools and models", "no call was recorded"
    return Check.of(what, number, 1, "call", (CALLS,), seen=seen, without=without)


def _rollouts(collected: Collected) -> list[Finding]:
    of_run = rollouts.of_run(collected).statistics
    total = max(of_run.number, of_run.cancelled)
    if not thresholds.is_notable_number(of_run.cancelled, total):
        return []
    cost = of_run.cancelled / total
    # Programs that sample more than they need cancel the rest.
    severity = Severity.WARNING if cost >= thresholds.CRITICAL_SHARE else Severity.NOTICE
    share = f"{human.number(of_run.cancelled)} of {human.amount(total, 'rollout')}"
    return [_finding(ROLLOUTS, severity, share, ("rollouts", ""), cost, collected.tables.value(_FIRST))]


def _finding(
    code: str, severity: Severity, share: str, place: tuple[str, str], cost: float, first: int | None
) -> Finding:
    """Return a finding; ``place`` is its section of the page and its subject."""
    when = "" if first is None else f", first in step {first}"
    text = f"{human.capital(share)} were cancelled, by the program or a time limit of it{when}."
    return Finding(code, severity, text, *place, cost=cost, onset=first, look_at=[_LIMIT])
