"""Tools and model calls that fail or are sent again, and all other errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.offline.report import human
from otel_rl.offline.report.aggregate import change_points
from otel_rl.offline.report.aggregate.calls_over_time import MODEL, TOOL
from otel_rl.offline.report.aggregate.over_time import merged
from otel_rl.offline.report.findings import sentences, thresholds
from otel_rl.offline.report.findings.finding import Finding, Severity

if TYPE_CHECKING:
    from otel_rl.offline.report.aggregate.calls import CallStatistics
    from otel_rl.offline.report.aggregate.collected import Collected
    from otel_rl.offline.report.aggregate.over_time import Line
    from otel_rl.offline.report.aggregate.problems import ErrorGroup

_ERROR_TYPES = 3


def tools(collected: Collected) -> list[Finding]:
    """Tools of which a notable share of the calls fails: rate, error types, since when, and the reward with it."""
    return [
        _of_tool(collected, one)
        for one in collected.calls.tools(collected.totals)
        if _is_notable(one.failed, one.number)
    ]


def _is_notable(failed: float, number: float) -> bool:
    return failed >= thresholds.FEWEST_FAILED and failed >= thresholds.NOTABLE_RATE * number


def _of_tool(collected: Collected, one: CallStatistics) -> Finding:
    calls = collected.calls.over_time
    since, onset = _since(collected, TOOL, one.name)
    text = (
        f"Tool {one.name} fails in {human.percent(one.failed / one.number)} of its calls"
        f" ({human.number(one.failed)} of {human.number(one.number)}: {_types(one.errors)}){since}"
    )
    cost = one.failed / one.number
    with_it, without = calls.rewards_of(one.name, collected.rewards.by_trace)
    if with_it.count and without.count:
        text += f"; mean reward {with_it.mean:.3g} with the failure, {without.mean:.3g} without"
        cost = with_it.count / (with_it.count + without.count)
    return Finding(
        "failing_tool",
        Severity.CRITICAL if one.failed >= thresholds.CRITICAL_SHARE * one.number else Severity.WARNING,
        f"{text}.",
        "tools",
        subject=one.name,
        chart="tool-failed",
        cost=cost,
        onset=onset,
        look_at=["The message of the first failed call, in the table of errors."],
    )


def _types(errors: dict[str, int]) -> str:
    ordered = sorted(errors, key=lambda kind: -errors[kind])
    more = f" and {len(ordered) - _ERROR_TYPES} more types" if len(ordered) > _ERROR_TYPES else ""
    return ", ".join(ordered[:_ERROR_TYPES]) + more


def _since(collected: Collected, kind: str, name: str, place: str | None = None) -> tuple[str, int | None]:
    """``since step 12 (2 % before)``, or the step of the first failure, where the rate did not change."""
    calls = collected.calls.over_time
    lines = {key: line for key, line in calls.failed.lines().items() if key[:2] == (kind, name)}
    lines = {key: line for key, line in lines.items() if place is None or key.place == place}
    line = merged(lines, lambda _: None).get(None)
    rise = _rise(line) if line is not None else None
    if line is not None and rise is not None:
        onset = line.x[rise.first]
        ended = "" if rise.last == len(line.x) - 1 else f" to {human.number(line.x[rise.last])}"
        since = f"from step {onset}{ended}" if ended else f"since step {onset}"
        return f" {since} ({human.percent(rise.before)} before)", onset
    first = [one for (of, called, _), one in calls.failures.items() if (of, called) == (kind, name)]
    steps = [one.first_step for one in first if one.first_step is not None]
    return (f", first in step {min(steps)}", min(steps)) if steps else ("", None)


def _rise(line: Line) -> change_points.Rise | None:
    if not line.by_step:
        return None
    return change_points.rise(line.means, factor=1.0, least=thresholds.NOTABLE_RATE, ratio=False)


def models(collected: Collected, named: set[str]) -> list[Finding]:
    """Model calls that fail, or that were sent again, all along; ``named`` are models of which that has been said."""
    found: list[Finding] = []
    calls = collected.calls.over_time
    for what, series, code in (
        ("failed", calls.failed, "failing_model"),
        ("were retried", calls.retried, "retried_model"),
    ):
        lines = {key: line for key, line in series.lines().items() if key.kind == MODEL}
        for (name, place), line in merged(lines, lambda key: (key.name, key.place)).items():
            one = _of_model(collected, what, code, name, place, line)
            if one is not None and one.subject not in named:
                found.append(one)
    return found


def _of_model(collected: Collected, what: str, code: str, name: str, place: str, line: Line) -> Finding | None:
    number, of_them = line.count, sum(cell.total for cell in line.cells)
    if not _is_notable(of_them, number):
        return None
    rate = of_them / number
    model = sentences.model(name)
    where = f"of model {model}" + (f" at {place}" if place else "")
    text = f"{human.percent(rate)} of the calls {where} {what}"
    onset = None
    if code == "failing_model":
        failures = collected.calls.over_time.failures.get((MODEL, name, place))
        since, onset = _since(collected, MODEL, name, place)
        text += f" ({_types(failures.errors)}){since}" if failures is not None else since
    severity = Severity.CRITICAL if rate >= thresholds.CRITICAL_SHARE and code == "failing_model" else Severity.WARNING
    chart = "model-failed" if code == "failing_model" else "model-retried"
    return Finding(code, severity, f"{text}.", "models", subject=model, chart=chart, cost=rate, onset=onset)


def errors(collected: Collected, explained: list[Finding]) -> list[Finding]:
    """All failed spans and error records as one finding, below the cause where another finding names it."""
    problems = collected.problems
    groups = problems.table()
    if not groups:
        return []
    number = sum(group.number for group in groups)
    besides = len(problems.exceptions)
    first = groups[0]
    more = f" besides {human.amount(besides, 'uncaught exception')}" if besides else ""
    text = f"{human.amount(number, 'failed span or error record', 'failed spans and error records')}{more}"
    finding = Finding(
        "errors",
        Severity.WARNING,
        f"{text}, most often {first.kind} in {first.where}.",
        "errors",
        onset=first.iteration,
    )
    cause = next((one for one in explained if _is_cause(one, groups, collected)), None)
    if cause is None:
        return [finding]
    cause.symptoms.append(finding)
    return []


def _is_cause(one: Finding, groups: list[ErrorGroup], collected: Collected) -> bool:
    """True where most errors are of a tool or model that another finding names, or of the exception that ended it."""
    number = sum(group.number for group in groups)
    if one.code == "ended":
        kinds = {exception.kind for exception in collected.problems.exceptions}
        return 2 * sum(group.number for group in groups if group.kind in kinds) > number
    if one.code not in ("failing_tool", "failing_model"):
        return False
    return 2 * sum(group.number for group in groups if group.where.rpartition(" ")[2] == one.subject) > number
