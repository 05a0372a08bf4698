"""How the run ended: the first error in time over all processes, and below it those that followed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.ranks.postmortem import text
from otel_rl.ranks.postmortem.order import EndBounds
from otel_rl.report.core import human, sentences
from otel_rl.report.core.finding import Check, CheckState, Finding, Severity
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.endings import peers, process_end, restarts, words
from otel_rl.report.subjects.errors import groups as errors
from otel_rl.store.reader import uncaught_exceptions
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.summary import Summary
    from otel_rl.report.subjects.endings.process_end import ProcessEnd
    from otel_rl.store.reader.uncaught_exceptions import UncaughtException

_SHOWN, _STANDINGS = 8, 2
#: Seconds before the first end within which the death of a thread may be its cause.
_THREAD_BEFORE = 300.0
#: Seconds for which ranks of a job that runs may still come.
_STARTING = 120.0
_SIGTERM = "SIGTERM"
_CELL = "cell_failed"
#: What mapping or filtering has emptied.
_EMPTIED = "SELECT rows_before FROM part WHERE rows_after = 0 AND rows_before > 0 ORDER BY started LIMIT 1"
#: Why a rank may not report although its job is well.
_WHY_MISSING = (
    "Likely it was started by something that otel-rl does not know as a launcher: OTEL_RL_CHILDREN=all records such"
    " children. Or it recorded nothing, could not write, or its files are on another machine."
)


@dataclass(slots=True)
class _Stop:
    """An end that was not in order; ``time`` in ns since the epoch, of its exception or of its last sign."""

    who: str
    words: str
    time: int
    rank: int | None
    section: str
    iteration: int | None = None
    is_vanished: bool = False
    #: An end that comes from somebody who ends the whole job.
    is_asked_for: bool = False
    #: True where nobody saw the end.
    has_no_time: bool = False
    evidence: list[str] = field(default_factory=list)
    look_at: list[str] = field(default_factory=list)
    #: Between which moments it was.
    bounds: EndBounds | None = None

    @property
    def text(self) -> str:
        """The statement about this process."""
        return f"{self.who} {self.words}."


def checks(collected: Collected) -> list[Check]:
    """Return whether the ends of the processes are known."""
    what, codes = "how the processes ended", ("ended", "thread_died", _CELL, "missing_ranks", "hang", restarts.EARLIER)
    if all(process.manifest is None for process in collected.reader.processes):
        return [Check.not_recorded(what, sentences.NO_MANIFEST, codes)]
    states = [end.state for end in process_end.ends(collected)]
    known = sum(not state.is_open for state in states)
    if states and not known:
        return [Check(what, CheckState.TOO_LITTLE, "the job is running, or its end is not known", codes)]
    return [Check.of(what, known, 1, "process", codes, human.amount(known, "process", "processes"))]


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return how the run ended, or that it runs, and ranks that are missing."""
    ends = process_end.ends(collected)
    stops = sorted((_stop(end) for end in ends if end.is_bad), key=lambda stop: stop.time)
    if stops:
        stops = sorted(_with_followers(stops, ends), key=lambda stop: stop.time)
    threads = [exception for exception in errors.uncaught(collected) if exception.thread]
    causes = [exception for exception in threads if stops and _may_have_ended(exception, stops[0])]
    stops = sorted([*stops, *(_of_thread(exception, ends) for exception in causes)], key=lambda stop: stop.time)
    found = _ended(collected, stops, ends)
    others = [exception for exception in threads if exception not in causes]
    found += [_thread_died(exception, ends) for exception in others[:_SHOWN]]
    found += _cells_failed(collected, ends)
    return [*found, *restarts.findings(collected), *_missing(collected, summarise(collected), ends)]


# -- stops ---------------------------------------------------------------------------------------------------------


def _stop(end: ProcessEnd) -> _Stop:
    exception, seen = end.exception, end.exit
    is_killed_so = end.state is EndState.KILLED and seen is not None and seen.signal == _SIGTERM
    is_asked_for = is_killed_so or end.state is EndState.STOPPED
    return _Stop(
        end.process.label,
        end.words,
        end.time,
        end.process.rank,
        "errors" if exception is not None else "processes",
        end.iteration,
        is_vanished=end.is_vanished,
        is_asked_for=is_asked_for,
        has_no_time=end.has_no_time,
        evidence=words.evidence(exception) if exception is not None else _of_status(end),
        look_at=words.next_steps(exception)
        if exception is not None
        else words.next_steps_of_signal(seen.signal, seen.oom_kills)
        if seen is not None
        else [],
        bounds=end.bounds,
    )


def _of_status(end: ProcessEnd) -> list[str]:
    is_by_program = end.state is EndState.FAILED and end.is_recorded
    return [
        "No exception was left uncaught: the program ended itself (sys.exit), and printed why, if it did."
    ] * is_by_program


def _with_followers(stops: list[_Stop], ends: list[ProcessEnd]) -> list[_Stop]:
    """Add the processes of which no end is known: where another one has failed, one of them may have been the first.

    What SIGTERM ended comes after what failed: a launcher ends the other ranks so.
    """
    stops = [*stops, *(_stop(end) for end in ends if end.state in (EndState.NOT_KNOWN, EndState.STOPPED))]
    begin = min((stop.time for stop in stops if not stop.is_asked_for), default=0)
    for stop in stops:
        if stop.is_asked_for:
            stop.time = max(stop.time, begin + 1)
    _lead(stops, ends)
    return stops


def _lead(stops: list[_Stop], ends: list[ProcessEnd]) -> None:
    """Let the process that had started the others come before those whose end nobody saw, where nobody saw its own."""
    leader = process_end.leading(ends)
    own = next((stop for stop in stops if leader is not None and stop.who == leader.process.label), None)
    if own is None or not own.has_no_time:
        return
    for stop in stops:
        is_shown = process_end.is_known_before(stop.bounds, own.bounds)
        if stop is not own and stop.has_no_time and not is_shown:
            stop.time = max(stop.time, own.time + 1)


def _may_have_ended(exception: UncaughtException, first: _Stop) -> bool:
    """Return whether a thread died shortly before the first process did."""
    return 0 <= (first.time - exception.time) / 1e9 <= _THREAD_BEFORE


def _of_thread(exception: UncaughtException, ends: list[ProcessEnd]) -> _Stop:
    who, said = _thread_words(exception, ends)
    return _Stop(
        who, said, exception.time, exception.process.rank, "errors", exception.iteration,
        evidence=words.evidence(exception), look_at=words.next_steps(exception),
        bounds=EndBounds(exception.time, exception.time),
    )  # fmt: skip


def _thread_words(exception: UncaughtException, ends: list[ProcessEnd]) -> tuple[str, str]:
    process = exception.process
    ended = process.number("ended_unix_nano") or process.last
    went_on = human.duration(max(ended - exception.time, 0) / 1e9)
    at = f", in step {exception.iteration}" if exception.iteration is not None and exception.in_step else ""
    is_running = any(end.state is EndState.RUNNING for end in ends if end.process.key == process.key)
    after = "the process runs on" if is_running else f"the process went on for {went_on}"
    return (
        f"thread {exception.thread} of {exception.who}",
        f"died of {uncaught_exceptions.what(exception)}{at}; {after}",
    )


def _thread_died(exception: UncaughtException, ends: list[ProcessEnd]) -> Finding:
    stop = _of_thread(exception, ends)
    finding = _finding(stop)
    finding.code, finding.severity, finding.cost = "thread_died", Severity.WARNING, None
    return finding


def _cells_failed(collected: Collected, ends: list[ProcessEnd]) -> list[Finding]:
    """Return a warning for each notebook that went on after cells that failed; what ended one is no part of it."""
    final = [end.exception for end in ends]
    by_kernel: dict[str, list[UncaughtException]] = {}
    for exception in errors.uncaught(collected):
        if exception.cell is not None and not exception.is_interrupt and exception not in final:
            by_kernel.setdefault(exception.process.key, []).append(exception)
    running = {end.process.key for end in ends if end.state is EndState.RUNNING}
    found = []
    for kernel, failed in list(by_kernel.items())[:_SHOWN]:
        last, after = failed[-1], "the kernel runs on" if kernel in running else "the notebook went on"
        several = f"{len(failed)} cells failed, the last of them cell {last.cell}"
        which = several if len(failed) > 1 else f"cell {last.cell} failed"
        text = f"{last.who}: {which}: {uncaught_exceptions.what(last)}; {after}."
        onset = last.iteration if last.in_step else None
        steps = words.next_steps(last)
        found.append(
            Finding(_CELL, Severity.WARNING, text, "errors", onset=onset, evidence=words.evidence(last), look_at=steps)
        )
    return found


# -- findings ------------------------------------------------------------------------------------------------------


def _ended(collected: Collected, stops: list[_Stop], ends: list[ProcessEnd]) -> list[Finding]:
    """Return the finding on how the run ended; where nothing failed, that it was stopped, runs, or is not known."""
    rings = _of_rings(collected)
    tells = rings is not None and (bool(rings.ranks) or _tells_who_waits(collected))
    if not stops:
        if rings is not None and tells:
            rings.symptoms += _without_failure(ends)
            if any(end.state is EndState.STOPPED for end in ends):
                # Somebody ended the job; the others may have waited for an evaluation, too.
                rings.severity, rings.cost = Severity.WARNING, None
            return [rings]
        return [*_without_failure(ends), *_waited_when_stopped(collected, ends)]
    if rings is not None and tells and stops[0].is_vanished:
        # That the first to stop has no end of its own has been said.
        others = [stop for stop in stops if not (stop.is_vanished and stop.rank in rings.ranks)]
        rings.symptoms += [_finding(stop) for stop in others[:_SHOWN]]
        return [rings]
    finding = _first(stops)
    if emptied := collected.tables.rows(_EMPTIED):
        rows = human.amount(emptied[0]["rows_before"], "row")
        finding.evidence.insert(0, f"The preparation of a data set left 0 of {rows}.")
    if rings is not None:
        finding.look_at += rings.look_at if tells else []
        finding.evidence += [rings.text, *rings.evidence][:_STANDINGS] if tells else _standings(collected)
    peers.lead(finding, ends, collected.rings.postmortem if tells else None)
    return [finding]


def _first(stops: list[_Stop]) -> Finding:
    """Return the first to stop, with the others below it; processes that are gone alike are one finding."""
    finding = _finding(stops[0])
    if stops[0].is_vanished and len({stop.words for stop in stops}) == 1:
        finding.text = f"{human.listed([stop.who for stop in stops])} {stops[0].words}."
        finding.ranks = [stop.rank for stop in stops if stop.rank is not None]
    else:
        finding.symptoms = [_finding(stop) for stop in stops[1 : _SHOWN + 1]]
        if stops[0].is_vanished:
            finding.evidence.append(_order_of_ends(stops))
    if all(stop.is_asked_for for stop in stops):
        # Somebody ended the job: what it lost is the end of its telemetry.
        finding.severity = Severity.WARNING
    return finding


def _order_of_ends(stops: list[_Stop]) -> str:
    """Say that the first one stopped first, where heartbeats, exits or records show it: last exports do not."""
    first, *others = (stop.bounds for stop in stops)
    if first is not None and all(process_end.is_known_before(first, other) for other in others):
        later = human.duration((min(other.earliest for other in others if other is not None) - first.earliest) / 1e9)
        return f"It stopped first: its last sign is {later} older than the next sign of trouble."
    return "Which of them ended first is not known: no heartbeat and no exit record shows it."


def _finding(stop: _Stop) -> Finding:
    ranks = [] if stop.rank is None else [stop.rank]
    return Finding(
        "ended", Severity.CRITICAL, stop.text, stop.section, cost=1.0, onset=stop.iteration, ranks=ranks,
        evidence=list(stop.evidence), look_at=list(stop.look_at),
    )  # fmt: skip


def _without_failure(ends: list[ProcessEnd]) -> list[Finding]:
    """Return what is to be said of ends that are no failure, one finding for each kind."""
    found = []
    for state in (EndState.NOT_KNOWN, EndState.STOPPED, EndState.RUNNING):
        of_state = [end for end in ends if end.state is state]
        if of_state:
            found.append(_of_state(state, of_state))
    survived: dict[str, list[ProcessEnd]] = {}
    for end in ends:
        if end.is_survived:
            survived.setdefault(end.words, []).append(end)
    found += [_survived(alike[:_SHOWN]) for alike in list(survived.values())[:_SHOWN]]
    # Ray's workers are ended while they shut down.
    unfinished = [
        end for end in ends if end.process.was_ending and end.process.exit_status is None and not end.process.is_of_ray
    ]
    return [*found, *(_notice([end]) for end in unfinished if end.state is EndState.IN_ORDER)]


def _survived(ends: list[ProcessEnd]) -> Finding:
    finding = _notice(ends)
    if ends[0].exit is not None and ends[0].exit.is_asked_for:
        finding.look_at = [words.BEFORE_TERMINATE]
    if ends[0].process.is_of_ray:
        # An actor does what the program asks of it, and nobody else does: that it died was no plan.
        finding.severity = Severity.WARNING
    return finding


def _waited_when_stopped(collected: Collected, ends: list[ProcessEnd]) -> list[Finding]:
    """Return a notice where a job was stopped while a rank waited for longer than usual, and may have gone on."""
    longest = collected.rings.longest_wait
    if longest is None or not any(end.state is EndState.STOPPED for end in ends):
        return []
    (waiting, missing, collective), seconds = longest
    not_known = f"What {missing.label} did is not known: it hung, or did what no phase marks."
    inside = f"{missing.label.capitalize()} was in {' > '.join(missing.inside)}." if missing.inside else not_known
    text = (
        f"When the job was stopped, {waiting.label} had waited {human.duration(seconds)} for {missing.label} to enter"
        f" {collective.words}. {inside}"
    )
    ranks = [] if missing.ring.rank is None else [missing.ring.rank]
    return [Finding("ended", Severity.NOTICE, text, process_end.SECTION, onset=missing.step, ranks=ranks)]


def _of_state(state: EndState, ends: list[ProcessEnd]) -> Finding:
    finding = _notice(ends)
    if state is EndState.RUNNING:
        finding.code = "running"
    elif state is EndState.NOT_KNOWN:
        is_over = all(process_end.is_silent(end) for end in ends)
        finding.severity = Severity.CRITICAL if is_over else Severity.WARNING
        if is_over:
            finding.cost = 1.0
            finding.evidence.append("A process that runs records more often than that: it was killed, or its machine.")
    return finding


def _notice(ends: list[ProcessEnd]) -> Finding:
    latest = max(ends, key=lambda end: end.time)
    said = latest.words if len(ends) == 1 else _plural(latest.words)
    ranks = [end.process.rank for end in ends if end.process.rank is not None]
    who = human.listed([end.process.label for end in ends])
    is_grave = latest.may_be_waited_for or any(end.waited for end in ends)
    severity = Severity.WARNING if is_grave else Severity.NOTICE
    return Finding("ended", severity, f"{who} {said}.", "processes", onset=latest.iteration, ranks=ranks)


def _plural(said: str) -> str:
    for one, several in (("is ", "are "), ("was ", "were "), ("has ", "have ")):
        if said.startswith(one):
            return several + said.removeprefix(one)
    return said


def _missing(collected: Collected, summary: Summary, ends: list[ProcessEnd]) -> list[Finding]:
    """Return the ranks that did not report, as grave as the job's end makes it."""
    if not summary.missing:
        return []
    seen = {end.rank: end for end in collected.rings.exits if end.rank in summary.missing and end.status != 0}
    is_running = any(end.state is EndState.RUNNING for end in ends)
    has_failed = bool(seen) or any(end.is_bad for end in ends)
    severity = Severity.CRITICAL if has_failed else Severity.WARNING
    if is_running and not has_failed and (summary.seconds or 0.0) < _STARTING:
        severity = Severity.NOTICE
    plural = "s" if len(summary.missing) > 1 else ""
    ranks = human.listed([str(rank) for rank in summary.missing])
    yet = " yet" if severity is Severity.NOTICE else ""
    said = f"Rank{plural} {ranks} of {summary.world_size} did not report{yet}."
    evidence = [f"rank {rank} {end.words}." for rank, end in sorted(seen.items(), key=lambda pair: pair[0] or 0)]
    if not has_failed:
        evidence.append(_WHY_MISSING)
    return [
        Finding("missing_ranks", severity, said, "processes", ranks=summary.missing, evidence=evidence[: _SHOWN + 1])
    ]


# -- what the rings say --------------------------------------------------------------------------------------------


def _of_rings(collected: Collected) -> Finding | None:
    """Return the finding of the flight recorders, where they name a rank that the others waited for."""
    postmortem = collected.rings.postmortem
    if postmortem is None or not process_end.rings_tell(collected):
        return None
    first, *more = map(_sentence, text.verdict(postmortem))
    ranks = [origin.ring.rank for origin in postmortem.waits.origins if origin.ring.rank is not None]
    steps = [origin.step for origin in postmortem.waits.origins if origin.step is not None]
    look_at = ["The section on how the run ended: where each rank was, and who waited for whom."]
    last, left = _left_its_steps(postmortem)
    if left:
        first = f"{first.removesuffix('.')}; {left}"
    # Of ranks that wait for each other none is the origin.
    more = more or list(map(_sentence, text.waits(postmortem)))
    return Finding(
        "ended", Severity.CRITICAL, first, process_end.SECTION, cost=1.0, onset=min(steps, default=last), ranks=ranks,
        evidence=more[:_STANDINGS], look_at=look_at,
    )  # fmt: skip


def _left_its_steps(postmortem: Postmortem) -> tuple[int | None, str]:
    """Return the last step of ranks that had left the loop while others, for which they wait, were in a further one."""
    waiting = [wait.waiting for wait in postmortem.waits.waits]
    behind = {state.label: state for state in waiting if state.step is not None and not state.step_was_open}
    others = [state for state in waiting if state.step_was_open and state.step is not None]
    last = max((state.step or 0 for state in behind.values()), default=0)
    if not behind or not others or min(state.step or 0 for state in others) <= last:
        return None, ""
    further = human.listed(sorted({f"{state.label} is in step {state.step}" for state in others}))
    said = (
        f"{human.listed(list(behind))} left the loop after step {last}, and {further}: it may have had fewer batches."
    )
    return last, said


def _sentence(line: str) -> str:
    return f"{human.capital(line)}."


def _tells_who_waits(collected: Collected) -> bool:
    """Return whether the rings know who waits; where they do not, what ended the first process says more."""
    postmortem = collected.rings.postmortem
    return postmortem is not None and text.knows_waits(postmortem) and not _is_unresolved(collected)


def _standings(collected: Collected) -> list[str]:
    """Return where the ranks were, below what ended them."""
    postmortem = collected.rings.postmortem
    return [] if postmortem is None else [_sentence(line) for line in text.standings(postmortem)[:_STANDINGS]]


def _is_unresolved(collected: Collected) -> bool:
    """Return whether the rings of some ranks are old copies: then the order of the last records says more."""
    postmortem = collected.rings.postmortem
    between = postmortem.waits if postmortem is not None else None
    if postmortem is None or between is None or between.circle or between.mismatches or postmortem.dumps.dumps:
        return False
    return any(rank.is_old_copy for rank in postmortem.ranks)
