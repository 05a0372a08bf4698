"""What a report may claim: properties of all findings and checks, asserted for each run that a test reads.

`tests/unit/report/conftest.py` looks at every report of its tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.health.curves import Curves
from otel_rl.health.rule_table import INPUTS
from otel_rl.health.user_rules import defaults
from otel_rl.report.core import output
from otel_rl.report.core.finding import CheckState, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview

#: Steps that a program made, whatever was recorded of them.
_STEPS = "SELECT count(DISTINCT step) AS number FROM step WHERE step IS NOT NULL"
_TOOLS = """
SELECT (SELECT count(*) FROM call JOIN callee USING (callee) WHERE kind IN ('tool', 'served tool') OR asked <> '')
       + (SELECT coalesce(sum(tool_calls), 0) FROM sample)"""
#: Checks that count something -> how often the calls of the run have it.
_SEEN = {
    "failing tools": "kind = 'tool' AND error <> ''",
    "failing model calls": "kind = 'model' AND error <> ''",
    "retried model calls": "kind = 'model' AND retries > 0",
    "cancelled calls of tools and models": "kind IN ('tool', 'model') AND outcome = 'cancelled'",
    "results of tools that are errors in a text": "kind = 'tool' AND outcome = 'error_text'",
}
_CALLS_WITH = "SELECT count(*) FROM calls WHERE is_fair AND {}"


def violations(collected: Collected, overview: Overview) -> Iterator[str]:
    """Yield each claim of a report that its own tables or findings contradict."""
    yield from _of_severities(overview)
    yield from _of_nothing_found(overview)
    yield from _of_what_was_seen(collected, overview)
    yield from _of_what_is_missing(collected, overview)


def _of_severities(overview: Overview) -> Iterator[str]:
    parts = [part for finding in overview.findings for part in finding.chain()]
    gravest = min((part.severity for part in parts), key=lambda severity: severity.order, default=None)
    if overview.worst is not gravest:
        yield f"worst is {overview.worst}, and a part of a chain is {gravest}"
    if output.is_in_order(overview) and gravest not in (None, Severity.NOTICE):
        yield f"nothing wrong found beside {gravest}"


def _of_nothing_found(overview: Overview) -> Iterator[str]:
    line = output.checked_without_finding(overview)
    for check in overview.checks:
        if f" {check.what} (" not in line:
            continue
        if not check.points and not check.detail:
            yield f"{check.what}: nothing found in nothing"
        for finding in overview.findings:
            for part in finding.chain():
                if part.code in check.codes or {part.chart, part.subject} & set(check.series):
                    yield f"{check.what}: nothing found beside {part.text}"


def _of_what_was_seen(collected: Collected, overview: Overview) -> Iterator[str]:
    for check in output.without_finding(overview, CheckState.CHECKED):
        condition = _SEEN.get(check.what)
        if condition is not None and (number := collected.tables.value(_CALLS_WITH.format(condition))):
            yield f"{check.what}: nothing found, and {number} calls have it"


def _of_what_is_missing(collected: Collected, overview: Overview) -> Iterator[str]:
    tables, curves = collected.tables, Curves(defaults().keys)
    logged = {row["key"] for row in tables.rows("SELECT key FROM logged_key WHERE number > 0")}
    known = {found[0] for key in logged if (found := curves.input_of(key)) is not None}
    has_steps, has_tools = tables.value(_STEPS) > 0, tables.value(_TOOLS) > 0
    for check in overview.checks:
        if check.state is CheckState.CHECKED:
            continue
        if check.detail.startswith("not logged: ") and not known.isdisjoint(_named(check.detail)):
            yield f"{check.what}: {check.detail}, and {known & _named(check.detail)} was logged"
        if check.detail == "no norm of the gradient was logged" and "gradient_norm" in known:
            yield f"{check.what}: a norm was logged"
        if check.detail == "this program has no training steps" and has_steps:
            yield f"{check.what}: it has steps"
        if check.detail == "no tool was called" and has_tools:
            yield f"{check.what}: one was"


def _named(detail: str) -> set[str]:
    """Return the inputs that are said to be missing, by the first of their keys."""
    keys = set(re.findall(r"\(([^()]+)\)", detail))
    return {name for name, item in INPUTS.items() if item.keys[0] in keys}
