"""Calls of tools, models and services that hung, as the watchdogs of their processes have told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.endings import process_end
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlCallEndingValues as Ending
from otel_rl.semconv.attributes import RlCallKindValues as Kind
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.endings.process_end import ProcessEnd
    from otel_rl.store.reader import Log

CODE = "hanging_call"
#: Kinds and names that are told apart, and hangs that are open, in all processes.
_NAMES, _OPEN = 200, 1000
_CALLS = {Kind.TOOL: "Tool", Kind.MODEL: "Model call", Kind.ENGINE: "Engine call", Kind.SERVICE: "Service"}
#: Endings after which nothing was wrong: others of its name are as long, or it is the first of its name.
_USUAL = frozenset({Ending.USUAL, Ending.WENT_ON})


@dataclass(slots=True)
class HangsOfName:
    """Hangs of one kind and name; the first one says where."""

    kind: str
    name: str
    number: int = 0
    #: Of these, how many had no end up to now, how many of them ended with their process, and seconds of the longest.
    open: int = 0
    cut_off: int = 0
    longest: float = 0.0
    #: The run went on after each process that ended in one.
    went_on: bool = True
    #: Usual seconds, as of the last one.
    usual: float = 0.0
    rollout: str = ""
    function: str = ""
    #: When it began, in ns since the epoch; 0: not known.
    since: int = 0
    iteration: int | None = None
    who: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


class HangingCalls:
    """Aggregates the events of calls that hang, in bounded memory."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], HangsOfName] = {}
        #: What returned after its limit.
        self._late: dict[tuple[str, str], HangsOfName] = {}
        self._open: dict[tuple[str, str, str], Log] = {}

    def add_log(self, log: Log) -> None:
        """Take in a hang, or its end."""
        if log.event not in (events.RL_CALL_HANG.name, events.RL_CALL_HANG_END.name):
            return
        kind, name = (str(log.attributes.get(key) or "") for key in (names.RL_CALL_KIND, names.RL_CALL_NAME))
        key = log.process.key, kind, name
        if log.event == events.RL_CALL_HANG.name:
            if len(self._open) < _OPEN:
                self._open[key] = log
            return
        told, ending = self._open.pop(key, None), log.attributes.get(names.RL_CALL_ENDING)
        if told is None or ending in _USUAL:
            return
        usual, seconds = (
            _number(values.get(name))
            for values, name in (
                (told.attributes, names.RL_CALL_USUAL_DURATION),
                (log.attributes, names.RL_HANG_DURATION),
            )
        )
        if ending != Ending.RETURNED:
            self._count(self._by_name, told, seconds)
        elif usual:
            late = self._count(self._late, told, seconds)
            if late is not None:
                late.usual = usual
        # Else the first call of a name has returned: that was no hang, as far as anybody knows.

    def _count(self, by_name: dict[tuple[str, str], HangsOfName], told: Log, seconds: float) -> HangsOfName | None:
        get = told.attributes.get
        kind, name = str(get(names.RL_CALL_KIND) or ""), str(get(names.RL_CALL_NAME) or "")
        if (kind, name) not in by_name and len(by_name) >= _NAMES:
            return None
        hangs = by_name.setdefault((kind, name), HangsOfName(kind, name))
        since = told.time - round(_number(get(names.RL_HANG_DURATION)) * 1e9)
        if not hangs.number or since < hangs.since:
            hangs.since, hangs.rollout = since, str(get(names.RL_ROLLOUT_ID) or "")
            hangs.function = _place(get)
            iteration = get(names.RL_LOOP_ITERATION)
            hangs.iteration = iteration if isinstance(iteration, int) else None
        hangs.number += 1
        hangs.longest = max(hangs.longest, seconds)
        hangs.who.add(told.process.label)
        if told.process.rank is not None:
            hangs.ranks.add(told.process.rank)
        return hangs

    def hangs(self, ends: Callable[[], Mapping[str, ProcessEnd]] = dict) -> list[HangsOfName]:
        """Return what hung, and hangs now, the longest first; ``ends`` says how processes ended, by their keys."""
        by_name = {key: replace(one, who={*one.who}, ranks={*one.ranks}) for key, one in self._by_name.items()}
        known = ends() if self._open else {}
        for told in self._open.values():
            # Others of the run may have gone on for hours after the process of the call was killed.
            until, end = max(told.process.last, told.time), known.get(told.process.key)
            seconds = _number(told.attributes.get(names.RL_HANG_DURATION)) + (until - told.time) / 1e9
            counted = self._count(by_name, told, seconds)
            if counted is not None:
                counted.open += 1
                counted.cut_off += end is not None and _has_ended(end)
                counted.went_on &= end is not None and _went_on_after(end, known)
        return sorted(by_name.values(), key=lambda one: -one.longest)

    def late(self) -> list[HangsOfName]:
        """Return what was taken for a hang and returned, the longest first: lengths of generations vary a lot."""
        return sorted(self._late.values(), key=lambda one: -one.longest)


def _has_ended(end: ProcessEnd) -> bool:
    return not end.state.is_open or (end.state is EndState.NOT_KNOWN and process_end.is_silent(end))


def _went_on_after(end: ProcessEnd, ends: Mapping[str, ProcessEnd]) -> bool:
    """Return whether another process worked on after this ``end``, and runs or ended in order."""
    well = (EndState.RUNNING, EndState.IN_ORDER)
    others = (other for other in ends.values() if other is not end and other.state in well)
    return _has_ended(end) and any(other.process.last > end.time for other in others)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _place(get: Any) -> str:
    function, file = get(names.CODE_FUNCTION_NAME), str(get(names.CODE_FILE_PATH) or "").rpartition("/")[2]
    return f"{function} ({file}:{get(names.CODE_LINE_NUMBER)})" if function and file else str(function or "")


def findings(collected: Collected) -> list[Finding]:
    """Return a finding for each kind and name, and a notice where calls took long and returned."""
    calls = collected[HangingCalls]
    found = [_finding(one) for one in calls.hangs(partial(process_end.every_end, collected))]
    return [*found, *map(_notice, calls.late())]


def _finding(one: HangsOfName) -> Finding:
    more = f"; {human.amount(one.number, 'hang')}, of {human.listed(sorted(one.who))}"
    if one.open:
        until = "when its process ended" if one.cut_off == one.open else "up to its process's last record"
        how = f"had not returned {until}{', after which the run went on' if one.went_on else ''}"
    else:
        how = "came to its end late"
    text = f"{_call(one)} hung for {human.duration(one.longest)} since {_where(one)}, and {how}{more}."
    severity = Severity.CRITICAL if one.open and not one.went_on else Severity.WARNING
    return _about(one, severity, text, ["`otel-rl postmortem`, which says who waits for it and for whom it waits."])


def _notice(one: HangsOfName) -> Finding:
    took = f"took {human.duration(one.longest)} (usually {human.duration(one.usual)})"
    calls = f"{human.amount(one.number, 'call')} beyond the limit, of {human.listed(sorted(one.who))}"
    return _about(one, Severity.NOTICE, f"{_call(one)} {took}, and returned; {calls}; first: {_where(one)}.")


def _call(one: HangsOfName) -> str:
    return f"{_CALLS.get(one.kind, 'Call')} {one.name}"


def _where(one: HangsOfName) -> str:
    """Return when the first one began, and where it was."""
    rollout = f" in rollout {one.rollout}" if one.rollout else ""
    return f"{human.moment(one.since)}{rollout}{f', in {one.function}' if one.function else ''}"


def _about(one: HangsOfName, severity: Severity, text: str, look_at: Sequence[str] = ()) -> Finding:
    return Finding(
        CODE,
        severity,
        text,
        "models" if one.kind in (Kind.MODEL, Kind.ENGINE) else "tools",
        subject=one.name,
        onset=one.iteration,
        ranks=sorted(one.ranks),
        look_at=[*look_at],
    )


def check(number: float) -> Check:
    """Return whether there were calls, of which ``number`` is known."""
    what, codes = "calls that hang", (CODE,)
    return Check.of(what, number, 1, "call", codes) if number else Check.not_applicable(what, "no calls", codes)
