"""Hangs, and all failed spans and error records that no other finding explains."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import VALUE, Check, Finding, Severity, take_over
from otel_rl.report.subjects.calls import lines, rollouts, statistics, tool_faults
from otel_rl.report.subjects.endings import recorded
from otel_rl.report.subjects.errors.groups import ErrorGroup, number_uncaught, table, uncaught
from otel_rl.semconv import events, spans

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

#: So many reports of hangs are said.
_HANGS, _LINE = 4, "\n"
#: Kinds of errors that are named.
_NAMED = 3
#: The time in what a watchdog says of a hang.
_SECONDS = re.compile(r" for \d+ s ")
_CALL = "hanging_call"
_BOTH = "failed spans and error records"
_LOGGED = {1: "lost_exception", 0: "logged_error"}
_LOST = "exception of an asyncio task that nobody awaited", "exceptions of asyncio tasks that nobody awaited"
_RECORD = "error in the program's own log", "errors in the program's own log"
_KEEP_TASKS = "where the task is made: await it, gather it or use a TaskGroup; the program goes on without its result"
_AT_PLACES = """
SELECT what, place, sum(number) AS number, min(first) AS first, max(message) AS message
FROM (SELECT coalesce(nullif(kind, ''), 'record of ' || logger) AS what, place, max(number) AS number,
             min(step) AS first, max(message) AS message
      FROM logged_errors WHERE is_lost = ? GROUP BY process, logger, kind, place)
GROUP BY what, place ORDER BY number DESC, place"""
#: Names of spans that are no name for a reader.
_PLACES = {spans.RL_RANK_STEP.type: "a step", spans.RL_LOOP.type: "a step", spans.RL_ROLLOUT.type: "a rollout"}


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return hangs and errors, where no finding before them is their cause."""
    causes = [finding for of_subject in known.values() for finding in of_subject]
    logged = _logged(collected)
    lost = [finding for finding in logged if finding.severity is not Severity.NOTICE]
    take_over(lost, known.get("changes", []), lambda _, change: change.code == VALUE)
    return [*_hangs(collected, causes), *_errors(collected, causes), *logged]


def checks(collected: Collected) -> list[Check]:
    """Return what is always looked for."""
    number = sum(process.spans + process.logs for process in collected.reader.processes)
    codes = (*_LOGGED.values(), "errors", "failing_tool", "failing_model", "hang", "ended", "earlier_attempt")
    return [Check.of("errors", number, 1, "span or log record", codes, f"{human.number(number)} spans and log records")]


def _hangs(collected: Collected, explained: list[Finding]) -> list[Finding]:
    """Return what the watchdogs reported; it goes below a call that hangs, or the run's end that was not in order."""
    reported = sorted((group for group in table(collected) if group.is_hang), key=lambda group: group.first)
    hangs: list[Finding] = []
    for group in reported[:_HANGS]:
        text = f"{group.who}: {_with_length(group, collected)}."
        hang = Finding("hang", Severity.WARNING, text, "errors", onset=group.iteration)
        cause = next((call for call in explained if _is_held_up(group, call, collected)), None)
        # Of ranks that wait for each other in one step each is told.
        cause = cause or next(
            (one for one in hangs if group.iteration is not None and one.onset == group.iteration), None
        )
        if cause is None:
            hangs.append(hang)
        else:
            cause.symptoms.append(hang)
    ended = next((group for group in explained if group.code == "ended"), None)
    if ended is None:
        return hangs
    ended.symptoms += hangs
    return []


def _with_length(hang: ErrorGroup, collected: Collected) -> str:
    """Return what a watchdog said of a hang, with the time that it lasted instead of the limit at which it was seen."""
    said = hang.message.partition(_LINE)[0]
    process = next((one for one in collected.reader.processes if one.label == hang.who), None)
    told = recorded.told_waits(collected).get(process.key) if process is not None else None
    if process is None or told is None:
        return said
    # Of a process that ended by itself without the end of the hang it is not known.
    until = told.end or (0 if process.number("ended_unix_nano") else process.last)
    if not told.begin <= hang.first <= until:
        return said
    return _SECONDS.sub(f" for {human.duration((until - told.begin) / 1e9)} ", said, count=1)


def _logged(collected: Collected) -> list[Finding]:
    """Return exceptions of asyncio tasks that nobody has awaited, and errors in the program's own log."""
    found = []
    for is_lost, code in _LOGGED.items():
        places = collected.tables.rows(_AT_PLACES, is_lost)
        number = sum(row["number"] for row in places)
        if not number:
            continue
        first = min((row["first"] for row in places if row["first"] is not None), default=None)
        what = human.amount(number, *(_LOST if is_lost else _RECORD))
        listed = human.listed(
            [f"{row['what']} at {row['place']} ({human.number(row['number'])})" for row in places[:3]]
        )
        more = f" and at {human.amount(len(places) - 3, 'other place')}" if len(places) > 3 else ""  # noqa: PLR2004 - as above
        since = "" if first is None else f", first in step {first}"
        severity = Severity.WARNING if is_lost else Severity.NOTICE
        finding = Finding(code, severity, f"{what}: {listed}{more}{since}.", "errors", onset=first)
        finding.evidence += [row["message"] for row in places[:1] if row["message"]]
        finding.look_at.append(_KEEP_TASKS if is_lost else "what the program logs there, and what becomes of it")
        found.append(finding)
    return found


def _is_held_up(hang: ErrorGroup, call: Finding, collected: Collected) -> bool:
    """Return whether the ranks of ``hang`` wait for a ``call`` that hangs, or for a rank that does."""
    postmortem = collected.rings.postmortem
    if postmortem is None or call.code != _CALL or call.severity is Severity.NOTICE:
        return False
    return hang.ranks <= postmortem.held_up_by(call.subject).numbers


def _errors(collected: Collected, explained: list[Finding]) -> list[Finding]:
    """Return all failed spans and error records as one finding, or put it below the finding that is its cause."""
    said = any(finding.code == "ended" for finding in explained)
    groups = [
        group
        for group in table(collected)
        # How children ended is said with their ends.
        if not group.is_hang and not (said and group.where == events.RL_PROCESS_EXIT.name)
    ]
    if not groups:
        return []
    number = sum(group.number for group in groups)
    besides = number_uncaught(collected)
    more = f", besides {human.amount(besides, 'uncaught exception')}" if besides else ""
    failures = _failures(number, sum(group.spans for group in groups))
    text = f"{failures}{_by_type(groups, collected)}{more}."
    severity = Severity.NOTICE if _are_rare(groups, collected) else Severity.WARNING
    finding = Finding("errors", severity, text, "errors", onset=groups[0].iteration)
    cause = _cause(explained, groups, collected)
    if cause is None:
        return [finding]
    if all(_is_of_waiting_ranks(group, cause) for group in groups):
        ranks = sorted({rank for group in groups for rank in group.ranks if rank is not None})
        finding.text = f"{human.listed([f'rank {rank}' for rank in ranks])} had {text}"
    cause.symptoms.append(finding)
    return []


def _by_type(groups: list[ErrorGroup], collected: Collected) -> str:
    """Return the errors by type and place, those that ended rollouts first, then the most frequent ones."""
    ended, numbers = rollouts.of_run(collected).statistics.errors, Counter[tuple[str, str]]()
    for group in groups:
        numbers[group.kind, _PLACES.get(group.where, group.where)] += group.number
    parts = [
        (f"{human.number(number)} " if len(numbers) > 1 else "")
        + f"{sentences.error(kind)} in {place}"
        + (f" (ended {human.amount(min(ended[kind], number), 'rollout')})" if kind in ended else "")
        for (kind, place), number in sorted(numbers.items(), key=lambda item: (item[0][0] not in ended, -item[1]))
    ]
    more = f" and {human.amount(len(parts) - _NAMED, 'other kind')}" if len(parts) > _NAMED else ""
    return (", all of them " if len(parts) == 1 < numbers.total() else ": ") + ", ".join(parts[:_NAMED]) + more


def _are_rare(groups: list[ErrorGroup], collected: Collected) -> bool:
    """Return whether nothing failed but a few of many calls of tools and models: a program is made for that."""
    calls = [*statistics.tools(collected), *statistics.models(collected)]
    failed = sum(call.failed for call in calls)
    if sum(group.number for group in groups) > failed or lines.fail_lately(collected):
        return False
    return failed < thresholds.NOTABLE_RATE * sum(call.number for call in calls)


def _is_of_waiting_ranks(group: ErrorGroup, ended: Finding) -> bool:
    """Return whether ranks failed once another one had stopped, and were ended before their exceptions were uncaught.

    A collective with a peer that is gone raises; torchrun sends SIGTERM to the ranks that are left at the same time.
    """
    if group.iteration is None or ended.onset is None:
        return False
    ranks = {rank for symptom in ended.symptoms for rank in symptom.ranks}
    return group.ranks <= ranks and group.iteration >= ended.onset


def _failures(number: int, spans: int) -> str:
    """Return how many spans failed, and how many log records report an error, in words."""
    if spans == number:
        return human.amount(number, "failed span")
    return human.amount(number, "failed span or error record" if spans else "error record", _BOTH if spans else None)


def _cause(findings: list[Finding], groups: list[ErrorGroup], collected: Collected) -> Finding | None:
    """Return what explains most errors: the exception that ended the run, or tools and models that fail.

    Of several of these, which explain them together, it is the one with most of them.
    """
    number = sum(group.number for group in groups)
    kinds = {kind for exception in uncaught(collected) for kind in exception.kinds}
    for ended in (finding for finding in findings if finding.code == "ended"):
        of_end = (group.number for group in groups if group.kind in kinds or _is_of_waiting_ranks(group, ended))
        if 2 * sum(of_end) > number:
            return ended
    # Failing rollouts have no subject.
    ended_by = {**tool_faults.ended_by(collected), "": rollouts.of_run(collected).statistics.errors}
    for ending in (finding for finding in findings if finding.code in (tool_faults.REPEATED, rollouts.FAILING)):
        if 2 * sum(group.number for group in groups if group.kind in ended_by.get(ending.subject, ())) > number:
            return ending
    failing = {finding.subject: finding for finding in findings if finding.code in ("failing_tool", "failing_model")}
    shares = dict.fromkeys(failing, 0)
    for group in groups:
        subject = group.where.rpartition(" ")[2]
        if subject in shares:
            shares[subject] += group.number
    most = max(shares, key=lambda subject: shares[subject], default=None)
    return failing[most] if most is not None and 2 * sum(shares.values()) > number else None
