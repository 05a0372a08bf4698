"""Tools and model calls that fail or are sent again, and rollouts that fail."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.process import agent_libraries
from otel_rl.report.core import human, levels, sentences, thresholds
from otel_rl.report.core.finding import STILL, VALUE, Check, Finding, Severity, take_over
from otel_rl.report.core.lines import merged
from otel_rl.report.core.messages import VARIABLE
from otel_rl.report.subjects.calls import call_texts, cancelled, hanging, lines, rollouts, statistics, tool_faults
from otel_rl.report.subjects.errors import groups as errors
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.lines import Line
    from otel_rl.report.subjects.calls.statistics import Asked, CallStatistics

_ERROR_TYPES, _NAMED_TOOLS = 3, 3
_FIRST_FAILED = "SELECT min(step) FROM rollout WHERE kind = ? AND error <> ''"
#: By how much more of its calls a tool fails at one server than at each of the others.
_MORE_AT_ONE = 0.2
#: Behind the last step, and the last second.
_LAST = 1 << 62


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return tools, then models, of which calls fail or are sent again, and rollouts that fail."""
    changed = {change.subject for change in known["changes"] if change.section == "models"}
    faults = [*_tools(collected), *_models(collected, changed), *tool_faults.findings(collected)]
    faults += cancelled.findings(collected)
    faults += _rollouts(collected, faults)
    # What a rollout does, and the rewards that it gets, follow from its calls.
    take_over(faults, known["changes"], _is_of_value)
    return [*hanging.findings(collected, known), *faults]


def _is_of_value(_: Finding, change: Finding) -> bool:
    return change.code in (VALUE, STILL)


def checks(collected: Collected) -> list[Check]:
    """Return which calls were recorded, and what is known of them."""
    tools, models = statistics.tools(collected), statistics.models(collected)
    return [
        hanging.check(sum(one.number for one in (*tools, *models))),
        _failing("failing rollouts", [rollouts.of_run(collected).statistics], _NO_ROLLOUT, rollouts.FAILING, "rollout"),
        *_of_tools(collected, tools),
        *_of_models(collected, models),
        cancelled.check(collected),
        *tool_faults.checks(collected),
    ]


_SLOW_MODEL = ("slower_model", "slow_server")


def _lines(collected: Collected, value: str, kind: str) -> list[Line]:
    """Return the lines of all callees of a kind, by name."""
    return list(merged(lines.of_kind(collected, value, kind), lambda called: called.name).values())


def _of_models(collected: Collected, models: list[CallStatistics]) -> list[Check]:
    slower = "model calls that become slower"
    checks = [
        _failing("failing model calls", models, _NO_MODEL, "failing_model"),
        _slower(slower, _lines(collected, "seconds", MODEL), models, _NO_MODEL, _SLOW_MODEL),
        _first_chunk(_lines(collected, "first_chunk", MODEL), models),
        _retried(collected, models),
    ]
    if models:
        return checks
    loaded = {library for process in collected.reader.processes for library in process.mapping("versions")}
    routers = (f"{router} to some providers" for router in agent_libraries.ROUTERS.values() if router in loaded)
    libraries = [*_unrecorded(collected, clients=True), *routers]
    if not libraries:
        return checks
    reason = f"calls of {human.listed(libraries)} are not instrumented; otel_rl.llm records them"
    return [Check.not_recorded(check.what, reason, check.codes) for check in checks]


def _of_tools(collected: Collected, tools: list[CallStatistics]) -> list[Check]:
    told = rollouts.told_tool_calls(collected)
    slower, codes = "tools that become slower", ("slower_tool", "slow_tool")
    checks = [
        _failing("failing tools", tools, _NO_TOOL, "failing_tool"),
        _slower(slower, _lines(collected, "seconds", TOOL), tools, _NO_TOOL, codes),
        tool_faults.check_of_texts(collected),
    ]
    reason = "" if tools else _unseen_tools(collected, told)
    return [Check.not_recorded(check.what, reason, check.codes) for check in checks] if reason else checks


def _unseen_tools(collected: Collected, told: int) -> str:
    """Return why tools may have been called though none is recorded; empty if nothing speaks for that."""
    asked = statistics.asked_tools(collected)
    if asked:
        return _of_asked(collected, asked)
    if told:
        is_known = "is known from the messages" if told == 1 else "are known from the messages"
        return (
            f"{human.amount(told, 'tool call')} {is_known}, but no tool function is recorded (otel_rl.tool does that)"
        )
    libraries = _unrecorded(collected, clients=False)
    return f"tools of {human.listed(libraries)} are not instrumented; otel_rl.tool records them" if libraries else ""


def _unrecorded(collected: Collected, *, clients: bool) -> list[str]:
    """Return the libraries that a process has loaded and nothing instruments there."""
    return sorted(
        {
            library
            for process in collected.reader.processes
            for library in agent_libraries.unrecorded(
                process.mapping("versions"), process.mapping("instrumentors"), clients=clients
            )
        }
    )


def _of_asked(collected: Collected, asked: dict[str, Asked]) -> str:
    """Return which tools answers have asked for, and which library has run them unseen."""
    libraries = _unrecorded(collected, clients=False)
    runs = f"{human.listed(libraries)}, which runs them, is not instrumented" if libraries else ""
    unseen = runs or "what runs them is not instrumented; otel_rl.tool records a tool function"
    named = [f"{human.amount(told.number, 'answer')} asked for {tool}" for tool, told in asked.items()]
    return f"{human.listed(named[:_NAMED_TOOLS])}; {unseen}"


def _failing(what: str, callees: list[CallStatistics], without: str, code: str, noun: str = "call") -> Check:
    """Return whether there are enough calls for failures to be more than chance."""
    failed, number = sum(callee.failed for callee in callees), sum(callee.number for callee in callees)
    codes = (code, "errors") if failed else (code,)
    types = _types(sum((Counter(callee.errors) for callee in callees), Counter()))
    basis = f"{human.amount(number, noun)}: {types}" if failed else ""
    return Check.of(what, number, thresholds.FEWEST_FAILED, noun, codes, basis, seen=failed, without=without)


def _slower(
    what: str, series: list[Line], callees: list[CallStatistics], without: str, codes: tuple[str, ...]
) -> Check:
    """Return whether one callee has calls at enough steps, or moments, for a change to show."""
    if not callees:
        return Check.not_applicable(what, without, codes)
    points = max((len(line.x) for line in series), default=0)
    if points < levels.ENOUGH:
        return Check.of(what, points, levels.ENOUGH, "step or second with calls", codes, plural=_MOMENTS)
    return Check.of(what, sum(line.count for line in series), 1, "call", codes)


def _first_chunk(series: list[Line], models: list[CallStatistics]) -> Check:
    what, codes = "first chunks that come later", ("slower_model",)
    if models and not any(model.first_chunk.cell.count for model in models):
        return Check.not_applicable(what, "no call was streamed", codes)
    return _slower(what, series, models, _NO_MODEL, codes)


def _retried(collected: Collected, models: list[CallStatistics]) -> Check:
    # A model that is retried more often is a finding of its duration.
    what, codes = "retried model calls", ("retried_model", "slower_model")
    if not models:
        return Check.not_applicable(what, _NO_MODEL, codes)
    of_models = lines.of_calls(collected, "retried").values()
    number = sum(line.count for line in of_models)
    if not number:
        return Check.not_recorded(what, "the client library does not say how often it sends a request", codes)
    retried = sum(line.total for line in of_models)
    return Check.of(what, number, thresholds.FEWEST_FAILED, "call", codes, seen=retried)


_NO_TOOL, _NO_MODEL, _NO_ROLLOUT = "no tool was called", "no model was called", "no rollout was recorded"
_MOMENTS = "steps or seconds with calls"


def _tools(collected: Collected) -> list[Finding]:
    """Return tools of which a notable share of the calls fails: rate, error types, onset, and the reward with it."""
    lately = lines.fail_lately(collected)
    return [
        _of_tool(collected, tool)
        for tool in statistics.tools(collected)
        if thresholds.is_notable_number(tool.failed, tool.number) or (TOOL, tool.name) in lately
    ]


def _rollouts(collected: Collected, causes: list[Finding]) -> list[Finding]:
    """Return a notable share of failed rollouts; it goes below the finding of what fails in most of them."""
    recorded = rollouts.of_run(collected)
    of_run, first = recorded.statistics, collected.tables.value(_FIRST_FAILED, recorded.kind)
    if not thresholds.is_notable_number(of_run.failed, of_run.number):
        return []
    cost, kind = of_run.failed / of_run.number, max(of_run.errors, key=of_run.errors.__getitem__)
    where = next((group.where for group in errors.table(collected) if group.kind == kind), "")
    text = f"{human.number(of_run.failed)} of {human.amount(of_run.number, 'rollout')} failed: {_types(of_run.errors)}"
    text += (f", most often in {where}" if where else "") + ("" if first is None else f", first in step {first}")
    severity = Severity.CRITICAL if cost >= thresholds.CRITICAL_SHARE else Severity.WARNING
    found = [Finding(rollouts.FAILING, severity, f"{text}.", "rollouts", cost=cost, onset=first)]
    ended_by = tool_faults.ended_by(collected)
    for cause in causes:
        if cause.subject == where.rpartition(" ")[2] or kind in ended_by.get(cause.subject, ()):
            cause.symptoms += found
            return []
    return found


def _of_tool(collected: Collected, tool: CallStatistics) -> Finding:
    rate = _rate(collected, (TOOL, tool.name, None), tool.failed, tool.number)
    inside = "; ".join(part for part in (_types(tool.errors), rate.before) if part)
    server = _failing_server(collected, tool.name, rate.onset)
    of = f"{human.percent(rate.share)} of {'all' if server else 'its calls'}"
    text = (
        f"Tool {tool.name} fails in {server}{of}{rate.since}"
        f" ({human.number(rate.failed)} of {human.number(rate.number)}: {inside}){rate.first}"
    )
    cost = tool.failed / tool.number
    with_it, without = lines.rewards_of(collected, tool.name)
    if with_it.number and without.number:
        text += f"; mean reward {with_it.mean:.3g} with the failure, {without.mean:.3g} without"
        cost = with_it.number / (with_it.number + without.number)
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


def _failing_server(collected: Collected, tool: str, onset: int | None) -> str:
    """Return how often the calls of a tool fail at one server, where they do not at its others; else ``""``."""
    rates: dict[str, tuple[float, int]] = {}
    for (_, name, place, _), line in sorted(lines.of_kind(collected, "failed", TOOL).items(), key=str):
        since = onset if onset is not None and line.by_step else -1
        if name == tool and (calls := line.count_between(since, _LAST)) >= thresholds.FEWEST_CALLS:
            failed, before = rates.get(place, (0.0, 0))
            rates[place] = failed + line.total_between(since, _LAST), before + calls
    shares = sorted(((failed / calls, place) for place, (failed, calls) in rates.items()), reverse=True)
    if len(shares) < 2 or shares[0][0] - shares[1][0] < _MORE_AT_ONE:  # noqa: PLR2004 - two servers
        return ""
    (share, place), *others = shares
    rest = human.listed([f"{human.percent(other)} at {at or 'an unknown place'}" for other, at in others])
    return f"{human.percent(share)} of its calls at {place or 'an unknown place'} ({rest}), "


def _reason(collected: Collected, tool: str) -> str:
    """Return where the reason of the failures stands, or which variable records it."""
    if any(group.message for group in errors.table(collected) if group.where.rpartition(" ")[2] == tool):
        return "The message of the first failed call, in the table of errors."
    kept = call_texts.kept(collected).get(TOOL)
    if kept and any(text.error and text.name.rpartition(" ")[2] == tool for text in kept.texts):
        return "What a failed call was given and answered: read, in the table of tool calls."
    return f"What the tool answered: it is content, which {VARIABLE} records."


def _types(errors: dict[str, int]) -> str:
    ordered = sorted(errors, key=lambda kind: -errors[kind])
    named = [sentences.error(kind) + (f" {errors[kind]}" if len(errors) > 1 else "") for kind in ordered]
    more = f" and {len(ordered) - _ERROR_TYPES} more types" if len(ordered) > _ERROR_TYPES else ""
    return ", ".join(named[:_ERROR_TYPES]) + more


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
        """Share of the calls that failed."""
        return self.failed / self.number


def _rate(collected: Collected, key: tuple[str, str, str | None], failed: float, number: float) -> _Rate:
    """Return the rate since it rose; else that of all calls, ``failed`` of ``number``, and the first failure."""
    kind, name, place = key
    own = {
        called: line
        for called, line in lines.of_kind(collected, "failed", kind).items()
        if called.name == name and place in (None, called.place)
    }
    line = merged(own, lambda _: None).get(None)
    rise = _rise(collected, key, line) if line is not None else None
    if line is not None and rise is not None:
        onset = line.x[rise.first]
        ended = "" if rise.last == len(line.x) - 1 else f" to {human.number(line.x[rise.last])}"
        part = slice(rise.first, rise.last + 1)
        return _Rate(
            sum(line.totals[part]),
            sum(line.numbers[part]),
            f" from step {onset}{ended}" if ended else f" since step {onset}",
            f"{human.percent(rise.before)} before",
            onset=onset,
        )
    failures = [one for (of, called, _), one in lines.failures(collected).items() if (of, called) == (kind, name)]
    steps = [one.first_step for one in failures if one.first_step is not None]
    if not steps:
        return _Rate(failed, number)
    return _Rate(failed, number, first=f", first in step {min(steps)}", onset=min(steps))


def _rise(collected: Collected, key: tuple[str, str, str | None], line: Line) -> levels.Rise | None:
    if not line.by_step:
        return None
    look = partial(levels.rise, line.means, factor=1.0, least=thresholds.NOTABLE_RATE, ratio=False)
    return collected.earlier_looks.rise(("failed", *key), len(line.x), look)


def _models(collected: Collected, named: set[str]) -> list[Finding]:
    """Return model calls that fail or are retried all along, without the models in ``named``."""
    failing: list[Finding] = []
    for what, value, code in (
        ("failed", "failed", "failing_model"),
        ("were retried", "retried", "retried_model"),
    ):
        models = merged(lines.of_kind(collected, value, MODEL), lambda called: (called.name, called.place))
        for (name, place), line in models.items():
            finding = _of_model(collected, what, code, name, place, line)
            if finding is not None and finding.subject not in named:
                failing.append(finding)
    return failing


def _of_model(collected: Collected, what: str, code: str, name: str, place: str, line: Line) -> Finding | None:
    number, of_them = line.count, line.total
    if not thresholds.is_notable_number(of_them, number):
        return None
    rate = _Rate(of_them, number)
    types = ""
    if code == "failing_model":
        failures = lines.failures(collected).get((MODEL, name, place))
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
