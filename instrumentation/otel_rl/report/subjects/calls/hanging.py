"""Calls of tools, models and services that hung, as the watchdogs of their processes have told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.ranks.postmortem.ranks import INTERRUPTED
from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.endings import process_end
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlCallEndingValues as Ending
from otel_rl.semconv.attributes import RlCallKindValues as Kind
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.endings.process_end import ProcessEnd
    from otel_rl.store.reader import Log, Process

CODE = "hanging_call"
_CALLS = {Kind.TOOL: "Tool", Kind.MODEL: "Model call", Kind.ENGINE: "Engine call", Kind.SERVICE: "Service"}
#: Signals by which launchers end a rank that hangs.
_OF_LAUNCHERS = ("SIGTERM", "SIGKILL")
#: Endings after which nothing was wrong: others of its name are as long, or it is the first of its name.
_USUAL = frozenset({Ending.USUAL, Ending.WENT_ON})


@dataclass(frozen=True, slots=True)
class HungCall:
    """One call that hung; what is said of it is of no other one."""

    #: When it began, in ns since the epoch, and for how long it is known to have been open, in s.
    since: int
    seconds: float
    rollout: str = ""
    function: str = ""
    iteration: int | None = None
    is_open: bool = False

    @property
    def order(self) -> tuple[bool, float]:
        """The larger, the more it matters: what has not returned, and then what took longest."""
        return self.is_open, self.seconds


@dataclass(slots=True)
class HangsOfName:
    """Hangs of one kind and name; the one that matters most says where."""

    kind: str
    name: str
    worst: HungCall
    number: int = 0
    #: Of these, how many had no end up to now.
    open: int = 0
    #: How many of those that were told had none, and how many of them ended with their process.
    told_open: int = 0
    cut_off: int = 0
    #: The run went on after each process that ended in one.
    went_on: bool = True
    #: Besides, how many returned after their limit.
    returned: int = 0
    #: Usual seconds, as of the last one.
    usual: float = 0.0
    who: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


def _hangs(collected: Collected) -> tuple[list[HangsOfName], list[HangsOfName]]:
    """Return what hung and hangs now, and what was taken for a hang and returned: lengths of generations vary a lot."""
    hung: dict[tuple[str, str], HangsOfName] = {}
    late: dict[tuple[str, str], HangsOfName] = {}
    # How many were told and returned, first calls too.
    returned: Counter[tuple[str, str]] = Counter()
    still: dict[tuple[Process, tuple[str, str]], Log] = {}
    for log in collected.tables.events(events.RL_CALL_HANG.name, events.RL_CALL_HANG_END.name):
        key, ending = _key(log), log.attributes.get(names.RL_CALL_ENDING)
        if log.event == events.RL_CALL_HANG.name:
            still[log.process, key] = log
            continue
        told = still.pop((log.process, key), None)
        if told is None or ending in _USUAL:
            continue
        call = _call_of(told, _number(log.attributes.get(names.RL_HANG_DURATION)))
        returned[key] += ending == Ending.RETURNED
        if ending != Ending.RETURNED:
            _count(hung, told, call)
        elif usual := _number(told.attributes.get(names.RL_CALL_USUAL_DURATION)):
            _count(late, told, call).usual = usual
        # Else the first call of a name has returned: that was no hang, as far as anybody knows.
    for told in still.values():
        _count_open(hung, told, collected)
    for key, one in hung.items():
        one.returned = returned[key]
    return _longest_first(hung), _longest_first(late)


def _longest_first(by_name: dict[tuple[str, str], HangsOfName]) -> list[HangsOfName]:
    return sorted(by_name.values(), key=lambda one: -one.worst.seconds)


def _count_open(hung: dict[tuple[str, str], HangsOfName], told: Log, collected: Collected) -> None:
    process, ends = told.process, process_end.every_end(collected)
    end = ends.get(process.key)
    listed = collected.rings.waiting.get(process.lifetime) if process.lifetime is not None else None
    seen = (process.last, told.time, end.time if end is not None else 0, listed.seen if listed else 0)
    # Others of the run may have gone on for hours after the process of the call was killed.
    seconds = _number(told.attributes.get(names.RL_HANG_DURATION)) + (max(seen) - told.time) / 1e9
    counted, more = _count(hung, told, _call_of(told, seconds, is_open=True)), _others(told, listed)
    counted.number += more
    counted.open += 1 + more
    counted.told_open += 1
    counted.cut_off += end is not None and _has_ended(end)
    counted.went_on &= end is not None and _went_on_after(end, ends)


def _key(log: Log) -> tuple[str, str]:
    return str(log.attributes.get(names.RL_CALL_KIND) or ""), str(log.attributes.get(names.RL_CALL_NAME) or "")


def _call_of(told: Log, seconds: float, *, is_open: bool = False) -> HungCall:
    get = told.attributes.get
    iteration = get(names.RL_LOOP_ITERATION)
    return HungCall(
        told.time - round(_number(get(names.RL_HANG_DURATION)) * 1e9),
        seconds,
        str(get(names.RL_ROLLOUT_ID) or ""),
        _place(get),
        iteration if isinstance(iteration, int) else None,
        is_open,
    )


def _count(by_name: dict[tuple[str, str], HangsOfName], told: Log, call: HungCall) -> HangsOfName:
    key = _key(told)
    hangs = by_name.setdefault(key, HangsOfName(*key, call))
    hangs.worst = max(hangs.worst, call, key=lambda one: one.order)
    hangs.number += 1
    hangs.who.add(told.process.label)
    if told.process.rank is not None:
        hangs.ranks.add(told.process.rank)
    return hangs


def _others(told: Log, listed: WaitingCalls | None) -> int:
    """Return how many calls of the name hung beside the one that was told: the list, if it has any, is newer."""
    number = sum((one.kind, one.name) == _key(told) and one.hangs for one in listed.calls) if listed is not None else 0
    return max(number or int(_number(told.attributes.get(names.RL_CALL_HANGING))), 1) - 1


def _has_ended(end: ProcessEnd) -> bool:
    return not end.state.is_open or (end.state is EndState.NOT_KNOWN and process_end.is_silent(end))


def _went_on_after(end: ProcessEnd, ends: Mapping[str, ProcessEnd]) -> bool:
    """Return whether another process worked on after this ``end``, and runs or ended in order."""
    others = (other for other in ends.values() if other is not end and other.state.is_well)
    return _has_ended(end) and any(other.process.last > end.time for other in others)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _place(get: Any) -> str:
    function, file = get(names.CODE_FUNCTION_NAME), str(get(names.CODE_FILE_PATH) or "").rpartition("/")[2]
    return f"{function} ({file}:{get(names.CODE_LINE_NUMBER)})" if function and file else str(function or "")


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return a finding for each kind and name, and a notice where calls took long and returned.

    That ranks wait for one whose call hangs, until the run ended, goes below the call: it is the cause.
    """
    hung, late = _hangs(collected)
    named = {(one.kind, one.name) for one in hung}
    found = [_finding(one) for one in hung]
    for one, finding in zip(hung, found, strict=True):
        if one.open:
            _explain(collected, finding, known.get("endings", []))
    return [*found, *(_notice(one) for one in late if (one.kind, one.name) not in named)]


def _explain(collected: Collected, finding: Finding, endings: list[Finding]) -> None:
    """Say who waited for the ranks of hanging calls, and take in the finding that says so of the run's end."""
    postmortem = collected.rings.postmortem
    if postmortem is None:
        return
    held_up = postmortem.held_up_by(finding.subject)
    if held_up is None or not held_up.waits:
        return
    who = human.listed([wait.waiting.label for wait in held_up.waits])
    waits = "had waited" if not postmortem.is_running else "waits" if len(held_up.waits) == 1 else "wait"
    first = held_up.waits[0]
    finding.text = f"{finding.text[:-1]}; {who} {waits} for {first.missing.label} in {first.collective.words}."
    finding.severity = Severity.CRITICAL
    ranks = {state.ring.rank for state in held_up.ranks}
    end = next(
        (one for one in endings if one.section == process_end.SECTION and one.ranks and ranks.issuperset(one.ranks)),
        None,
    )
    if end is not None and not any(_ended_otherwise(state) for state in held_up.ranks):
        endings.remove(end)
        finding.cost, finding.onset = end.cost, end.onset if finding.onset is None else finding.onset
        finding.symptoms += [end, *end.symptoms]
        end.symptoms = []


def _ended_otherwise(state: RankState) -> bool:
    """Return whether a rank has an end of its own: an exception, a status, or a signal of no launcher."""
    if state.ring.end_reason not in ("", INTERRUPTED):
        return True
    seen = state.exit
    return seen is not None and (seen.status > 0 or bool(seen.oom_kills) or seen.signal not in (None, *_OF_LAUNCHERS))


def _finding(one: HangsOfName) -> Finding:
    call = one.worst
    if one.open:
        until = "when its process ended" if one.cut_off == one.told_open else "up to its process's last record"
        how = f"had not returned {until}{', after which the run went on' if one.went_on else ''}"
    else:
        how = "came to its end late"
    length = f"{'at least ' if call.is_open else ''}{human.duration(call.seconds)}"
    text = f"{_call(one)} hung for {length} since {_where(call)}, and {how}; {_numbers(one)}."
    severity = Severity.CRITICAL if one.open and not one.went_on else Severity.WARNING
    return _about(one, severity, text, ["`otel-rl postmortem`, which says who waits for it and for whom it waits."])


def _numbers(one: HangsOfName) -> str:
    """Return how many calls of the name hung, and what became of them."""
    failed = one.number - one.open
    parts = [f"{one.open} had not returned" if one.open else "", f"{failed} failed or dropped" if failed else ""]
    became = ", ".join(part for part in parts if part)
    said = f"{human.amount(one.number, 'hang')}, of {human.listed(sorted(one.who))}"
    returned = f"; {one.returned} more returned late" if one.returned else ""
    return f"{said}{f': {became}' if one.number > 1 else ''}{returned}"


def _notice(one: HangsOfName) -> Finding:
    took = f"took {human.duration(one.worst.seconds)} (usually {human.duration(one.usual)})"
    calls = f"{human.amount(one.number, 'call')} beyond the limit, of {human.listed(sorted(one.who))}"
    first = "it began" if one.number == 1 else "the longest began"
    return _about(one, Severity.NOTICE, f"{_call(one)} {took}, and returned; {calls}; {first} {_where(one.worst)}.")


def _call(one: HangsOfName) -> str:
    return f"{_CALLS.get(one.kind, 'Call')} {one.name}"


def _where(one: HungCall) -> str:
    """Return when it began, and where it was."""
    rollout = f" in rollout {one.rollout}" if one.rollout else ""
    return f"{human.moment(one.since)}{rollout}{f', in {one.function}' if one.function else ''}"


def _about(one: HangsOfName, severity: Severity, text: str, look_at: Sequence[str] = ()) -> Finding:
    return Finding(
        CODE,
        severity,
        text,
        "models" if one.kind in (Kind.MODEL, Kind.ENGINE) else "tools",
        subject=one.name,
        onset=one.worst.iteration,
        ranks=sorted(one.ranks),
        look_at=[*look_at],
    )


def check(number: float) -> Check:
    """Return whether there were calls, of which ``number`` is known."""
    what, codes = "calls that hang", (CODE,)
    return Check.of(what, number, 1, "call", codes, without="no calls")
