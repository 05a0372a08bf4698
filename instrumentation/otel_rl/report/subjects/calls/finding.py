"""Tools and model calls that fail or are sent again, and all other errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import change_points, human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.messages import VARIABLE
from otel_rl.report.core.over_time import merged
from otel_rl.report.subjects.calls import hanging
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.calls.call_texts import CallTexts
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL
from otel_rl.report.subjects.errors.aggregate import Problems

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.over_time import Line, OverTime
    from otel_rl.report.subjects.calls.aggregate import CallStatistics

_ERROR_TYPES = 3


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return tools, then models, of which calls fail or are sent again."""
    changed = {change.subject for change in known["changes"] if change.section == "models"}
    return [*hanging.findings(collected, known), *_tools(collected), *_models(collected, changed)]


def checks(collected: Collected) -> list[Check]:
    """Return which calls were recorded, and what is known of them."""
    calls, totals = collected[Calls], collected.totals
    series, tools, models = calls.over_time, calls.tools(totals), calls.models(totals)
    return [
        hanging.check(sum(one.number for one in (*tools, *models))),
        *_of_tools(calls, tools),
        _failing("failing model calls", models, _NO_MODEL, "failing_model"),
        _slower("model calls that become slower", MODEL, series.seconds, models, ("slower_model", "slow_server")),
        _first_chunk(series.first_chunk, models),
        _retried(series.retried, models),
    ]


def _of_tools(calls: Calls, tools: list[CallStatistics]) -> list[Check]:
    failing, slower = "failing tools", "tools that become slower"
    codes = ("slower_tool", "slow_tool")
    if not tools and calls.told_tool_calls:
        number = human.amount(calls.told_tool_calls, "tool call")
        is_known = "is known from the messages" if calls.told_tool_calls == 1 else "are known from the messages"
        reason = f"{number} {is_known}, but no tool function is recorded (otel_rl.tool does that)"
        return [Check.not_recorded(failing, reason, ("failing_tool",)), Check.not_recorded(slower, reason, codes)]
    return [
        _failing(failing, tools, _NO_TOOL, "failing_tool"),
        _slower(slower, TOOL, calls.over_time.seconds, tools, codes),
    ]


def _failing(what: str, callees: list[CallStatistics], without: str, code: str) -> Check:
    """Return whether there are enough calls for failures to be more than chance."""
    if not callees:
        return Check.not_applicable(what, without, (code,))
    failed = sum(callee.failed for callee in callees)
    codes = (code, "errors") if failed else (code,)
    return Check.of(what, sum(callee.number for callee in callees), thresholds.FEWEST_FAILED, "call", codes)


def _slower(
    what: str, kind: str, series: OverTime, callees: list[CallStatistics], codes: tuple[str, ...], without: str = ""
) -> Check:
    """Return whether one callee has calls at enough steps, or moments, for a change to show."""
    if not callees:
        return Check.not_applicable(what, _NO_TOOL if kind == TOOL else _NO_MODEL, codes)
    lines = merged({key: line for key, line in series.lines().items() if key.kind == kind}, lambda key: key.name)
    points = max((len(line.x) for line in lines.values()), default=0)
    if not points and without:
        return Check.not_applicable(what, without, codes)
    if points < change_points.ENOUGH:
        return Check.of(what, points, change_points.ENOUGH, "step or second with calls", codes, plural=_MOMENTS)
    return Check.of(what, sum(line.count for line in lines.values()), 1, "call", codes)


def _first_chunk(series: OverTime, models: list[CallStatistics]) -> Check:
    what = "first chunks that come later"
    return _slower(what, MODEL, series, models, ("slower_model",), "no call was streamed")


def _retried(series: OverTime, models: list[CallStatistics]) -> Check:
    what, codes = "retried model calls", ("retried_model",)
    if not models:
        return Check.not_applicable(what, _NO_MODEL, codes)
    number = sum(line.count for line in series.lines().values())
    if not number:
        return Check.not_recorded(what, "the client library does not say how often it sends a request", codes)
    return Check.of(what, number, thresholds.FEWEST_FAILED, "call", codes)


_NO_TOOL, _NO_MODEL = "no tool was called", "no model was called"
_MOMENTS = "steps or seconds with calls"


def _tools(collected: Collected) -> list[Finding]:
    """Return tools of which a notable share of the calls fails: rate, error types, onset, and the reward with it."""
    return [
        _of_tool(collected, tool)
        for tool in collected[Calls].tools(collected.totals)
        if _is_notable(tool.failed, tool.number)
    ]


def _is_notable(failed: float, number: float) -> bool:
    return failed >= thresholds.FEWEST_FAILED and failed >= thresholds.NOTABLE_RATE * number


def _of_tool(collected: Collected, tool: CallStatistics) -> Finding:
    calls = collected[Calls].over_time
    rate = _rate(collected, (TOOL, tool.name, None), tool.failed, tool.number)
    inside = "; ".join(part for part in (_types(tool.errors), rate.before) if part)
    text = (
        f"Tool {tool.name} fails in {human.percent(rate.share)} of its calls{rate.since}"
        f" ({human.number(rate.failed)} of {human.number(rate.number)}: {inside}){rate.first}"
    )
    cost = tool.failed / tool.number
    with_it, without = calls.rewards_of(tool.name)
    if with_it.count and without.count:
        text += f"; mean reward {with_it.mean:.3g} with the failure, {without.mean:.3g} without"
        cost = with_it.count / (with_it.count + without.count)
    return Finding(
        "failing_tool",
        Severity.CRITICAL if tool.failed >= thresholds.CRITICAL_SHARE * tool.number else Severity.WARNING,
        f"{text}.",
        "tools",
        subject=tool.name,
        chart="tool-failed",
        cost=cost,
        onset=rate.onset,
        look_at=[_reason(collected, tool.name)],
    )


def _reason(collected: Collected, tool: str) -> str:
    """Return where the reason of the failures stands, or which variable records it."""
    if any(group.message for group in collected[Problems].table() if group.where.rpartition(" ")[2] == tool):
        return "The message of the first failed call, in the table of errors."
    texts = collected[CallTexts].items(TOOL)
    if any(text.error and text.name.rpartition(" ")[2] == tool for text in texts):
        return "What a failed call was given and answered: read, in the table of tool calls."
    return f"What the tool answered: it is content, which {VARIABLE} records."


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
    """Return the rate since it rose; else that of all calls, ``failed`` of ``number``, and the first failure."""
    calls = collected[Calls].over_time
    kind, name, place = key
    lines = {key: line for key, line in calls.failed.lines().items() if key[:2] == (kind, name)}
    lines = {key: line for key, line in lines.items() if place is None or key.place == place}
    line = merged(lines, lambda _: None).get(None)
    rise = _rise(collected, key, line) if line is not None else None
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
    first = [failures for (of, called, _), failures in calls.failures.items() if (of, called) == (kind, name)]
    steps = [failures.first_step for failures in first if failures.first_step is not None]
    if not steps:
        return _Rate(failed, number)
    return _Rate(failed, number, first=f", first in step {min(steps)}", onset=min(steps))


def _rise(collected: Collected, key: tuple[str, str, str | None], line: Line) -> change_points.Rise | None:
    if not line.by_step:
        return None
    look = partial(change_points.rise, line.means, factor=1.0, least=thresholds.NOTABLE_RATE, ratio=False)
    looks = collected.earlier_looks
    return look() if looks is None else looks.rise(("failed", *key, line.width), len(line.x), look)


def _models(collected: Collected, named: set[str]) -> list[Finding]:
    """Return model calls that fail or are retried all along, without the models in ``named``."""
    failing: list[Finding] = []
    calls = collected[Calls].over_time
    for what, series, code in (
        ("failed", calls.failed, "failing_model"),
        ("were retried", calls.retried, "retried_model"),
    ):
        lines = {key: line for key, line in series.lines().items() if key.kind == MODEL}
        for (name, place), line in merged(lines, lambda key: (key.name, key.place)).items():
            finding = _of_model(collected, what, code, name, place, line)
            if finding is not None and finding.subject not in named:
                failing.append(finding)
    return failing


def _of_model(collected: Collected, what: str, code: str, name: str, place: str, line: Line) -> Finding | None:
    number, of_them = line.count, sum(cell.total for cell in line.cells)
    if not _is_notable(of_them, number):
        return None
    rate = _Rate(of_them, number)
    types = ""
    if code == "failing_model":
        failures = collected[Calls].over_time.failures.get((MODEL, name, place))
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
