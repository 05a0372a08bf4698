"""Processes that did not end in order: the first to stop, and below it those that failed because of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.ranks.postmortem import text
from otel_rl.ranks.postmortem.ranks import GONE
from otel_rl.report.core import human, sentences
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.errors.aggregate import Problems
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.summary import Summary
    from otel_rl.store.reader import Process

#: Section of the page on how the run ended.
SECTION = "ending"
_SHOWN, _STANDINGS = 8, 2
_NO_END = "no normal end, or still running."


@dataclass(frozen=True, slots=True)
class _Stop:
    """A process that stopped; ``time`` in ns since the epoch, of its exception or of its last record."""

    who: str
    rank: int | None
    time: int
    is_vanished: bool
    text: str
    section: str
    iteration: int | None = None


def checks(collected: Collected) -> list[Check]:
    """Return whether the ends of the processes are known."""
    what, codes = "how the processes ended", ("ended", "missing_ranks", "hang")
    known = sum(1 for process in collected.reader.processes if process.manifest is not None)
    if not known:
        return [Check.not_recorded(what, sentences.NO_MANIFEST, codes)]
    return [Check.of(what, known, 1, "process", codes, human.amount(known, "process", "processes"))]


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return how the run ended, where that was not in order, and ranks that are missing."""
    summary = summarise(collected)
    endings = []
    stops = sorted([*_exceptions(collected), *_vanished(collected, summary)], key=lambda stop: stop.time)
    rings = _of_rings(collected)
    if rings is not None and (rings.ranks or not stops or _tells_who_waits(collected)):
        # That the first to stop has no end of its own has been said.
        others = [stop for stop in stops if not (stop.is_vanished and stop.rank in rings.ranks)]
        rings.symptoms += [_finding(stop) for stop in others[:_SHOWN]]
        endings.append(rings)
    elif stops:
        first = _first(stops)
        if rings is not None:
            first.section, first.look_at = rings.section, rings.look_at
            first.evidence += _standings(collected)
        endings.append(first)
    if summary.missing:
        ranks = human.listed([str(rank) for rank in summary.missing])
        plural = "s" if len(summary.missing) > 1 else ""
        said = f"Rank{plural} {ranks} of {summary.world_size} did not report."
        endings.append(Finding("missing_ranks", Severity.CRITICAL, said, "processes", ranks=summary.missing))
    return endings


def _of_rings(collected: Collected) -> Finding | None:
    """Return the finding of the flight recorders, where they name a rank that the others waited for."""
    postmortem = collected.rings.postmortem
    if postmortem is None or not collected.rings.ended_badly:
        return None
    first, *more = map(_sentence, text.verdict(postmortem))
    ranks = [origin.ring.rank for origin in postmortem.waits.origins if origin.ring.rank is not None]
    steps = [origin.step for origin in postmortem.waits.origins if origin.step is not None]
    look_at = ["The section on how the run ended: where each rank was, and who waited for whom."]
    return Finding(
        "ended", Severity.CRITICAL, first, SECTION, cost=1.0, onset=min(steps, default=None), ranks=ranks,
        evidence=more[:_STANDINGS], look_at=look_at,
    )  # fmt: skip


def _sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:]}."


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


def _first(stops: list[_Stop]) -> Finding:
    """Return the first to stop, with the others below it; processes without an end only are one finding."""
    if all(stop.is_vanished for stop in stops):
        who = human.listed([stop.who for stop in stops])
        causes = {stop.text.partition(": ")[2] for stop in stops}
        is_one = len(causes) == 1
        said = f"{who}: {causes.pop() if is_one else _NO_END}"
        return Finding(
            "ended", Severity.CRITICAL, said, "processes", cost=1.0,
            ranks=[stop.rank for stop in stops if stop.rank is not None],
            evidence=[] if is_one else [stop.text for stop in stops[:_SHOWN]],
        )  # fmt: skip
    finding = _finding(stops[0])
    finding.symptoms = [_finding(stop) for stop in stops[1 : _SHOWN + 1]]
    if stops[0].is_vanished:
        later = human.duration((stops[1].time - stops[0].time) / 1e9)
        finding.evidence.append(f"It stopped first: its last record is {later} older than the next sign of trouble.")
    return finding


def _finding(stop: _Stop) -> Finding:
    ranks = [] if stop.rank is None else [stop.rank]
    return Finding("ended", Severity.CRITICAL, stop.text, stop.section, cost=1.0, onset=stop.iteration, ranks=ranks)


def _exceptions(collected: Collected) -> list[_Stop]:
    ranks = {process.label: process.rank for process in collected.reader.processes}
    return [
        _Stop(
            exception.who,
            ranks.get(exception.who),
            exception.time,
            False,
            _died(exception.who, exception.kind, exception.iteration),
            "errors",
            exception.iteration,
        )
        for exception in collected[Problems].exceptions
    ]


def _died(who: str, kind: str, iteration: int | None) -> str:
    at = f" at step {iteration}" if iteration is not None else ""
    return f"{who} died of {kind}{at}."


def _vanished(collected: Collected, summary: Summary) -> list[_Stop]:
    died = {exception.who for exception in collected[Problems].exceptions}
    causes = _causes(collected)
    return [
        _Stop(
            process.label, process.rank, _last(process), True,
            f"{process.label}: {causes.get(_key(process), _NO_END)}",
            "processes",
        )
        for process in collected.reader.processes
        if process.label in summary.unclean and process.label not in died
    ]  # fmt: skip


def _key(process: Process) -> tuple[int | None, int | None]:
    """Return the rank; a process without a rank is identified by its id."""
    return process.rank, int_or_none(process.identity(names.PROCESS_PID)) if process.rank is None else None


def _causes(collected: Collected) -> dict[tuple[int | None, int | None], str]:
    """Return how processes ended, and at which step, where their parents or their rings have recorded it."""
    postmortem = collected.rings.postmortem
    causes = {}
    for ended in postmortem.ranks if postmortem is not None else ():
        rank, is_seen = ended.ring.rank, ended.state == GONE and not ended.is_old_copy
        if is_seen or ended.exit is not None:
            at = f"; at step {ended.step}" if is_seen and ended.step is not None else ""
            causes[rank, ended.ring.lifetime.pid if rank is None else None] = f"{ended.cause}{at}."
    return causes


def _last(process: Process) -> int:
    return process.last or process.first
