"""What is wrong with a run that stands still: who is late, who hangs, who is gone, and who waits for them.

A hang is what the watchdog calls one: no progress for longer than its limit, and than ten usual steps, in none of the
phases that may be long. What is shorter is a late rank: others wait for it, and for three usual steps at least.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.copies import INTERVAL as COPY_INTERVAL
from otel_rl.live import hanging_calls
from otel_rl.live.standing import LiveFinding, ProcessSign, ProcessState
from otel_rl.ranks.postmortem.ranks import INTERRUPTED, RankState
from otel_rl.ranks.watchdog.step_times import FIRST_STEPS, MAY_BE_LONG, STEPS
from otel_rl.report.core import human
from otel_rl.report.core.finding import Severity
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.ranks.postmortem.chains import WaitChain
    from otel_rl.ranks.postmortem.waits import RankWait

#: Seconds, and usual steps, that others wait before a rank is said to be late; and seconds before that is known.
_LATE, _LATE_STEPS, _LATE_AT_FIRST = 3.0, 3, 30.0
#: Seconds without a heartbeat after which a process is said to be silent.
_SILENT = 6.0
#: Phases in which standing still may be no hang.
_GENERATING = frozenset({Phase.SAMPLE, Phase.GENERATE})
_SIGTERM = "SIGTERM"
_VANISHED = "is gone without an end: killed, or os._exit"
_NANOSECONDS = 1e9


class StandstillJudge:
    """Knows how long a step takes; ``hang_seconds`` is the watchdog's setting, 0 where that is off."""

    def __init__(self, hang_seconds: float) -> None:
        self._hang_seconds = hang_seconds
        #: Seconds that a step takes, once the watchdog would know it.
        self.usual_step: float | None = None

    def learn(self, postmortem: Postmortem) -> None:
        """Learn how long steps take."""
        seconds = [
            (event.moment - event.began) / _NANOSECONDS
            for state in postmortem.ranks
            for event in state.ring.records
            if event.kind == layout.STEP and event.what == layout.DONE
        ]
        ranks = max(sum(state.step is not None for state in postmortem.ranks), 1)
        if len(seconds) >= FIRST_STEPS * ranks:
            self.usual_step = median(seconds)

    def findings(
        self,
        signs: list[ProcessSign],
        postmortem: Postmortem | None,
        found: list[LiveFinding],
        hanging: Sequence[WaitChain] = (),
    ) -> list[LiveFinding]:
        """Return what is wrong beside the ends ``found``; each rank is named once.

        ``hanging`` are the waits for calls that hang: they explain why their rank is late or hangs.
        """
        if postmortem is not None and any(sign.is_alive for sign in signs):
            waited_for = self._waited_for(postmortem, signs)
            _explain(found, waited_for)
            standing = waited_for or ([] if found else self._without_progress(postmortem))
            found += hanging_calls.explain(standing, self._of_calls(hanging))
        else:
            found += self._of_calls(hanging)
        named = {rank for finding in found for rank in finding.ranks}
        left = [sign for sign in signs if sign.rank is None or sign.rank not in named]
        return [*found, *_stopped(left), *_silent(left), *self._waiting(left)]

    def _waiting(self, signs: list[ProcessSign]) -> list[LiveFinding]:
        """Return processes that are in one part of the run for longer than the watchdog's limit."""
        long = [
            sign for sign in signs if sign.state is ProcessState.RUNNING and sign.part_seconds >= self._hang_seconds
        ]
        return [
            LiveFinding(
                "waiting", Severity.WARNING, f"{sign.label} waits",
                f"{human.capital(sign.label)} waits, {sign.part}.",
                [] if sign.rank is None else [sign.rank], sign.place, sign.step,
                time.time_ns() - round(sign.part_seconds * _NANOSECONDS),
            )
            for sign in long
            if sign.part and self._hang_seconds
        ]  # fmt: skip

    def _of_calls(self, hanging: Sequence[WaitChain]) -> list[LiveFinding]:
        now = time.time_ns()
        return [hanging_calls.finding(chain, now, self._hang_seconds) for chain in hanging]

    @property
    def _hang(self) -> float | None:
        """Seconds that are a hang; None where the watchdog would not say."""
        if not self._hang_seconds or self.usual_step is None:
            return None
        return max(self._hang_seconds, STEPS * self.usual_step)

    # -- waits -----------------------------------------------------------------------------------------------------

    def _waited_for(self, postmortem: Postmortem, signs: list[ProcessSign]) -> list[LiveFinding]:
        by_rank = {sign.rank: sign for sign in signs}
        waited_for = postmortem.waits.origins or postmortem.waits.circle
        late = _LATE_AT_FIRST if self.usual_step is None else max(_LATE, _LATE_STEPS * self.usual_step)
        found = []
        for state in waited_for:
            waits = [wait for wait in postmortem.waits.on(state) if wait.collective.outcome == "open"]
            since = min((wait.waiting.ring.wall(wait.collective.moment) for wait in waits), default=0)
            seconds = (time.time_ns() - since) / _NANOSECONDS
            sign = by_rank.get(state.ring.rank)
            is_stopped = sign is not None and sign.state is ProcessState.STOPPED
            if waits and (seconds >= late or (is_stopped and seconds >= _LATE)):
                found.append(self._keeps_waiting(state, waits, since, sign))
        return found

    def _keeps_waiting(
        self, state: RankState, waits: list[RankWait], since: int, sign: ProcessSign | None
    ) -> LiveFinding:
        seconds = (time.time_ns() - since) / _NANOSECONDS
        code, severity = self._grade(state, seconds, sign)
        who = [wait.waiting.label for wait in waits]
        collective = waits[0].collective.words
        wait_for = f"{human.listed(who)} {'has' if len(who) == 1 else 'have'} waited for it {human.duration(seconds)}"
        where = _place(state)
        label = human.capital(state.label)
        # As the postmortem says it: between guessed steps the last one is over.
        inside = f" {'in' if state.step_was_open else 'after'} {where}" if where else ""
        text = f"{label} {_does(state, sign)}{inside} and has not entered {collective}; {wait_for}."
        titles = {"hang": "hangs", "late_rank": "is late", "stopped": "is stopped"}
        evidence = [_silence(sign)] if sign is not None and _is_silent(sign) else []
        cost = (
            f"{human.amount(len(who), 'rank')} {'waits' if len(who) == 1 else 'wait'}, {human.duration(seconds)} so far"
        )
        return LiveFinding(
            code, severity, f"{label} {titles[code]}", text, _ranks(state), where, state.step, since, cost, evidence
        )

    def _grade(self, state: RankState, seconds: float, sign: ProcessSign | None) -> tuple[str, Severity]:
        if sign is not None and sign.state is ProcessState.STOPPED:
            return "stopped", Severity.CRITICAL
        if not state.is_alive:
            return "hang", Severity.CRITICAL
        phases = _phases(state)
        if phases & MAY_BE_LONG or self.usual_step is None:
            return "late_rank", Severity.NOTICE
        is_hang = self._hang is not None and seconds >= self._hang and not phases & _GENERATING
        return ("hang", Severity.CRITICAL) if is_hang else ("late_rank", Severity.WARNING)

    def _without_progress(self, postmortem: Postmortem) -> list[LiveFinding]:
        """Return a hang in which nobody is known to wait for another."""
        running = [state for state in postmortem.ranks if state.is_alive and state.step_is_open]
        limit = self._hang
        phases = {phase for state in running for phase in _phases(state)}
        if limit is None or not running or phases & (MAY_BE_LONG | _GENERATING):
            return []
        seconds = min(state.seconds_without_progress for state in running)
        if seconds < limit:
            return []
        first = max(running, key=lambda state: state.seconds_without_progress)
        who, where = human.listed([state.label for state in running]), _place(first)
        inside = f", in {first.unfinished[-1].words}" if first.unfinished else ""
        text = f"No progress for {human.duration(seconds)} in {who}, at {where}{inside}."
        since = time.time_ns() - round(seconds * _NANOSECONDS)
        ranks = [rank for state in running for rank in _ranks(state)]
        return [
            LiveFinding(
                "hang", Severity.CRITICAL, f"No progress in {who}", text, ranks, where, first.step, since,
                f"all of the time since {human.moment(since)}",
            )
        ]  # fmt: skip


# -- processes ---------------------------------------------------------------------------------------------------------


def has_failed(sign: ProcessSign) -> bool:
    """Return whether a process has ended, and not in order."""
    return sign.state is ProcessState.ENDED and bool(sign.cause) and sign.cause != INTERRUPTED


def deaths(signs: list[ProcessSign], exits: Mapping[Lifetime, Exit]) -> list[LiveFinding]:
    """Return the process that was gone or failed first; what followed stands below it."""
    found = []
    # A helper may be ended by its program in any way; what nothing is left of was the program.
    is_all = all(sign.state is ProcessState.GONE or has_failed(sign) for sign in signs)
    for sign in signs:
        seen = exits.get(sign.lifetime) if sign.lifetime is not None else None
        if sign.state is ProcessState.GONE:
            how = f"was {seen.words}" if seen is not None else _VANISHED
            found.append(_death("gone", sign, how, seen, is_helper=not is_all))
        elif has_failed(sign):
            found.append(_death("ended", sign, f"failed: {sign.cause}", seen, is_helper=not is_all))
    found.sort(key=lambda finding: (finding.severity.order, finding.since))
    for finding in found[1:]:
        found[0].evidence.append(finding.text)
        found[0].ranks += finding.ranks
    return found[:1]


def _explain(found: list[LiveFinding], waited_for: list[LiveFinding]) -> None:
    """Put waits for a process that is gone below its end."""
    for wait in list(waited_for):
        death = next((death for death in found if set(wait.ranks) <= set(death.ranks)), None)
        if death is not None:
            death.evidence.append(wait.text)
            death.cost = wait.cost
            waited_for.remove(wait)


def _death(code: str, sign: ProcessSign, how: str, seen: Exit | None, *, is_helper: bool) -> LiveFinding:
    is_asked_for = seen is not None and seen.signal == _SIGTERM
    is_helper = is_helper and sign.rank is None and sign.step is None
    severity = Severity.WARNING if is_asked_for or is_helper else Severity.CRITICAL
    since = time.time_ns() - round(sign.silent * _NANOSECONDS) if sign.silent is not None else 0
    # Who loses a peer fails after it, and may have given its last sign before.
    since = sign.ended or since
    label = human.capital(sign.label)
    before = f"; at most {COPY_INTERVAL:.0f} s earlier it was in {sign.place}"
    where = "" if not sign.place else f", in {sign.place}" if sign.is_current else before
    return LiveFinding(
        code, severity, f"{label} {'is gone' if code == 'gone' else 'has failed'}", f"{label} {how}{where}.",
        [] if sign.rank is None else [sign.rank], sign.place, sign.step, since, "the run, as far as it needs this rank",
    )  # fmt: skip


def _stopped(signs: list[ProcessSign]) -> list[LiveFinding]:
    """Return processes that are stopped, and for which nobody waits."""
    return [
        _without_signs(
            sign, "stopped", Severity.WARNING,
            f"{human.capital(sign.label)} is stopped by a signal (SIGSTOP) or a debugger"
            f"{f', in {sign.place}' if sign.place else ''}; SIGCONT lets it go on.",
        )
        for sign in signs
        if sign.state is ProcessState.STOPPED
    ]  # fmt: skip


def _silent(signs: list[ProcessSign]) -> list[LiveFinding]:
    """Return processes without a heartbeat, where others have given one."""
    if not any(sign.state is ProcessState.RUNNING and not _is_silent(sign) for sign in signs):
        return []
    return [
        _without_signs(
            sign, "silent", Severity.NOTICE, f"{_silence(sign)[:-1]}{f'; it is in {sign.place}' if sign.place else ''}."
        )
        for sign in signs
        if sign.state is ProcessState.RUNNING and _is_silent(sign)
    ]


def _without_signs(sign: ProcessSign, code: str, severity: Severity, text: str) -> LiveFinding:
    """Return that a process is ``code`` since its last sign."""
    return LiveFinding(
        code, severity, f"{sign.label} is {code}", text, [] if sign.rank is None else [sign.rank], sign.place,
        sign.step, time.time_ns() - round((sign.silent or 0.0) * _NANOSECONDS),
    )  # fmt: skip


def _is_silent(sign: ProcessSign) -> bool:
    # Without a ring only its files tell, and those are written when there is something to write.
    return sign.is_current and sign.silent is not None and sign.silent >= _SILENT


def _silence(sign: ProcessSign) -> str:
    why = "it is stopped" if sign.state is ProcessState.STOPPED else "it may hold the GIL"
    label = human.capital(sign.label)
    return f"{label} has given no sign for {human.duration(sign.silent)}: {why}."


# -- words -------------------------------------------------------------------------------------------------------------


def _does(state: RankState, sign: ProcessSign | None) -> str:
    if sign is not None and sign.state is ProcessState.STOPPED:
        return "is stopped by a signal (SIGSTOP)"
    return "is" if state.is_alive else "ended"


def _place(state: RankState) -> str:
    if state.step is None:
        return ""
    inside = f" ({' > '.join(state.inside)})" if state.inside else ""
    return f"step {state.step}{inside}"


def _phases(state: RankState) -> frozenset[str]:
    return frozenset(event.name for event in state.ring.open if event.kind == layout.PHASE)


def _ranks(state: RankState) -> list[int]:
    return [] if state.ring.rank is None else [state.ring.rank]
