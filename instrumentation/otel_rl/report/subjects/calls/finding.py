"""Tools and model calls that fail or are sent again, and all other errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import change_points, human, sentences, thresholds
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.over_time import merged
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL
from otel_rl.semconv import events

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.subjects.calls.aggregate import CallStatistics
    from otel_rl.report.subjects.errors.aggregate import ErrorGroup

_ERROR_TYPES = 3
#: So many reports of hangs are said.
_HANGS, _LINE = 4, "\n"


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
    rate = _rate(collected, (TOOL, one.name, None), one.failed, one.number)
    inside = "; ".join(part for part in (_types(one.errors), rate.before) if part)
    text = (
        f"Tool {one.name} fails in {human.percent(rate.share)} of its calls{rate.since}"
        f" ({human.number(rate.failed)} of {human.number(rate.number)}: {inside}){rate.first}"
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
        onset=rate.onset,
        look_at=["The message of the first failed call, in the table of errors."],
    )


def _types(errors: dict[str, int]) -> str:
    ordered = sorted(errors, key=lambda kind: -errors[kind])
    more = f" and {len(ordered) - _ERROR_TYPES} more types" if len(ordered) > _ERROR_TYPES else ""
    return ", ".join(ordered[:_ERROR_TYPES]) + more


class _Rate(NamedTuple):
    """How many calls failed, all along or since the step at which that began.

    ``since``, ``before`` and ``first`` are words for a sentence.
    """

    failed: float
    number: float
    since: str = ""
    before: str = ""
    first: str = ""
    onset: int | None = None

    @property
    def share(self) -> float:
        return self.failed / self.number


def _rate(collected: Collected, key: tuple[str, str, str | None], failed: float, number: float) -> _Rate:
    """The rate since it rose; where it did not, that of all calls, ``failed`` of ``number``, and the first failure."""
    calls = collected.calls.over_time
    kind, name, place = key
    lines = {key: line for key, line in calls.failed.lines().items() if key[:2] == (kind, name)}
    lines = {key: line for key, line in lines.items() if place is None or key.place == place}
    line = merged(lines, lambda _: None).get(None)
    rise = _rise(line) if line is not None else None
    if line is not None and rise is not None:
        onset = line.x[rise.first]
        ended = "" if rise.last == len(line.x) - 1 else f" to {human.number(line.x[rise.last])}"
        cells = line.cells[rise.first : rise.last + 1]
        return _Rate(
            sum(cell.total for cell in cells),
            sum(cell.count for cell in cells),
            f" from step {onset}{ended}" if ended else f" since step {onset}",
            f"{human.percent(rise.before)} before",
            onset=onset,
        )
    first = [one for (of, called, _), one in calls.failures.items() if (of, called) == (kind, name)]
    steps = [one.first_step for one in first if one.first_step is not None]
    if not steps:
        return _Rate(failed, number)
    return _Rate(failed, number, first=f", first in step {min(steps)}", onset=min(steps))


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
    rate = _Rate(of_them, number)
    types = ""
    if code == "failing_model":
        failures = collected.calls.over_time.failures.get((MODEL, name, place))
        types = _types(failures.errors) if failures is not None else ""
        rate = _rate(collected, (MODEL, name, place), of_them, number)
    cost = of_them / number
    model = sentences.model(name)
    where = f"of model {model}" + (f" at {place}" if place else "")
    inside = "; ".join(part for part in (types, rate.before) if part)
    text = f"{human.percent(rate.share)} of the calls {where} {what}{rate.since}"
    text += (f" ({inside})" if inside else "") + rate.first
    severity = Severity.CRITICAL if cost >= thresholds.CRITICAL_SHARE and code == "failing_model" else Severity.WARNING
    chart = "model-failed" if code == "failing_model" else "model-retried"
    return Finding(code, severity, f"{text}.", "models", subject=model, chart=chart, cost=cost, onset=rate.onset)


def hangs(collected: Collected, explained: list[Finding]) -> list[Finding]:
    """What the watchdogs of the processes told while they hung; below the end of the run where that was no order."""
    told = sorted((group for group in collected.problems.table() if _is_hang(group)), key=lambda one: one.first)
    found = [
        Finding(
            "hang",
            Severity.WARNING,
            f"{group.who}: {group.message.partition(_LINE)[0]}.",
            "errors",
            onset=group.iteration,
        )
        for group in told[:_HANGS]
    ]
    ended = next((one for one in explained if one.code == "ended"), None)
    if ended is None:
        return found
    ended.symptoms += found
    return []


def _is_hang(group: ErrorGroup) -> bool:
    return group.where == events.RL_HANG.name


def errors(collected: Collected, explained: list[Finding]) -> list[Finding]:
    """All failed spans and error records as one finding, below the cause where another finding names it."""
    problems = collected.problems
    groups = [group for group in problems.table() if not _is_hang(group)]
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
