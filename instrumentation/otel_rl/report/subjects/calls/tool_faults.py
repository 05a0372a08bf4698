"""Tools that are asked for with arguments that are no JSON, say their errors in a text, or are called over and over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.calls import statistics
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.semconv.attributes import RlToolOutcomeValues as Outcome
from otel_rl.store.tables.load import TOOL

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

INVALID, ERROR_TEXT, REPEATED = "no_json_arguments", "error_text", "repeated_tool"
_SECTION = "tools"
_ERROR_TEXTS = f"""
SELECT name AS tool, count(*) AS calls, sum(outcome IS '{Outcome.ERROR_TEXT}') AS number,
       min(CASE WHEN outcome IS '{Outcome.ERROR_TEXT}' THEN step END) AS first
FROM calls WHERE kind = '{TOOL}' GROUP BY name ORDER BY number DESC, name"""
_REPEATED = f"""
SELECT repeated_tool AS tool, count(*) AS number, min(repeated_calls) AS least, max(repeated_calls) AS most,
       min(step) AS first, sum(status IS '{Status.FAILED}') AS failed
FROM sample WHERE repeated_calls >= ? AND NOT is_pending GROUP BY repeated_tool ORDER BY number DESC, tool"""
_ERRORS = "SELECT DISTINCT error FROM rollout WHERE error <> ''"
_WITH_TOOLS = "SELECT count(*) FROM sample WHERE tool_calls > 0 AND NOT is_pending"


class _ToolLoop(NamedTuple):
    """Rollouts in which a tool was called over and over, and the kind of the error that ended all of them."""

    finding: Finding
    error: str


def findings(collected: Collected) -> list[Finding]:
    """Return tools whose calls are no errors for whoever counts errors, and get the rollout nowhere all the same."""
    loops = [one.finding for one in _loops(collected)]
    looping = {finding.subject for finding in loops}
    texts = _texts(collected)
    for loop in loops:
        loop.symptoms += [finding for finding in texts if finding.subject == loop.subject]
    return [*_invalid(collected), *loops, *(finding for finding in texts if finding.subject not in looping)]


def ended_by(collected: Collected) -> dict[str, set[str]]:
    """Return by tool that was called over and over the kinds of the errors that ended those rollouts."""
    return {one.finding.subject: {one.error} for one in _loops(collected) if one.error}


def check_of_texts(collected: Collected) -> Check:
    """Return what is known of the results of tools."""
    texts = collected.tables.rows(_ERROR_TEXTS)
    called, seen = (sum(row[column] or 0 for row in texts) for column in ("calls", "number"))
    what, without = "results of tools that are errors in a text", "no tool call was recorded"
    return Check.of(what, called, 1, "tool call", (ERROR_TEXT,), seen=seen, without=without)


def checks(collected: Collected) -> list[Check]:
    """Return what is known of the answers that ask for tools, and of rollouts with tools."""
    told = [statistics.asked_tools(collected, column) for column in ("asked", "invalid")]
    asked, invalid = (sum(tool.number for tool in tools.values()) for tools in told)
    rollouts = int(collected.tables.value(_WITH_TOOLS))
    looping = sum(row["number"] for row in collected.tables.rows(_REPEATED, thresholds.REPEATED_CALLS))
    answers = "answer that asks for a tool", "answers that do"
    return [
        _check("arguments of tools that are no JSON", INVALID, asked, invalid, *answers),
        _check("tools called over and over", REPEATED, rollouts, looping, "rollout with tools", "rollouts with tools"),
    ]


def _check(what: str, code: str, number: int, seen: int, noun: str, plural: str | None) -> Check:
    return Check.of(what, number, 1, noun, (code,), plural=plural, seen=seen, without=f"no {noun} was recorded")


def _invalid(collected: Collected) -> list[Finding]:
    asked, found = statistics.asked_tools(collected), []
    for tool, (number, first) in statistics.asked_tools(collected, "invalid").items():
        total = max(asked.get(tool, statistics.Asked()).number, number)
        if thresholds.is_notable_number(number, total):
            text = (
                f"{human.number(number)} of {human.number(total)} answers that ask for tool {tool} have arguments that "
                f"are no JSON{_first(first)}."
            )
            found.append(_finding(INVALID, text, tool, number / total, first, _OF_ARGUMENTS))
    return found


def _texts(collected: Collected) -> list[Finding]:
    found = []
    for tool, calls, number, first in collected.tables.rows(_ERROR_TEXTS):
        if thresholds.is_notable_number(number, calls):
            text = (
                f"Tool {tool} returned a text that begins as an error does in {human.number(number)} of "
                f"{human.number(calls)} calls{_first(first)}; none of them counts as failed."
            )
            found.append(_finding(ERROR_TEXT, text, tool, number / calls, first, _OF_TEXTS))
    return found


@asked_once
def _loops(collected: Collected) -> list[_ToolLoop]:
    total, found, errors = int(collected.tables.value(_WITH_TOOLS)), [], collected.tables.rows(_ERRORS)
    for row in collected.tables.rows(_REPEATED, thresholds.REPEATED_CALLS):
        number, most = row["number"], row["most"]
        is_long = most >= thresholds.MANY_REPEATED_CALLS and number >= thresholds.NOTABLE_RATE * total
        if not (thresholds.is_notable_number(number, total) or is_long):
            continue
        error = errors[0]["error"] if len(errors) == 1 and row["failed"] == number else ""
        times = f"{'' if row['least'] == most else 'up to '}{human.number(most)} times in a row"
        where = f"each of {human.amount(total, 'rollout')}" if number == total > 1 else _some(number, total)
        ended = f", which ended with {error.rpartition('.')[2]}" if error else ""
        text = (
            f"{row['tool']} was called {times} with the same arguments and result in {where}{ended}"
            f"{_first(row['first'])}."
        )
        finding = _finding(REPEATED, text, row["tool"], number / max(total, number), row["first"], _OF_LOOPS)
        found.append(_ToolLoop(finding, error))
    return found


def _some(number: int, total: int) -> str:
    return "the only rollout" if number == total else f"{human.number(number)} of {human.amount(total, 'rollout')}"


def _first(step: int | None) -> str:
    return "" if step is None else f", first in step {step}"


def _finding(code: str, text: str, tool: str, cost: float, onset: int | None, look_at: tuple[str, ...]) -> Finding:
    return Finding(code, Severity.WARNING, text, _SECTION, tool, cost=cost, onset=onset, look_at=list(look_at))


_OF_ARGUMENTS = (
    "what the program does with such an answer: many end the rollout, or give it a reward of 0",
    "the tool parser and chat template of the server, and max_tokens, which cuts arguments off",
)
_OF_TEXTS = ("what the tool answered: whether the model can do better with it", "raising in the tool, or `call.fail`")
_OF_LOOPS = (
    "what the tool answers, and whether the model sees it in its next request",
    "a limit of the same calls in a row, or a reward that makes them costly",
)
