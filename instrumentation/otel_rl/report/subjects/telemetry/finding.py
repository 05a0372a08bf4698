"""What telemetry lost, or could not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core.guard import OF_PROGRAM
from otel_rl.ranks.postmortem.ranks import GONE
from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.telemetry.aggregate import drops, internal_errors
from otel_rl.training import step_sampling
from otel_rl.training.logged_values import LEFT_OUT_BY_CHOICE

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_SECTION, _WHAT, _CUT_OFF = "telemetry", "lost telemetry", "cut_off"

#: A value of the program that is NaN or infinite: metrics cannot have it, and the rule ``non_finite`` tells of it.
_NON_FINITE = "non_finite"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return findings on the recording itself; most of them are notices."""
    losses = []
    if collected.steps.unseen.count > collected.steps.seen.count:
        losses.append(Finding("unseen_collectives", Severity.NOTICE, sentences.unseen(collected.steps), "ranks"))
    processes = collected.reader.processes
    by_design = LEFT_OUT_BY_CHOICE | step_sampling.REASONS | {_NON_FINITE}
    dropped = [drop for drop in drops(processes, collected.totals) if drop.reason not in by_design]
    lost = sum(drop.number for drop in dropped)
    if lost:
        reasons = human.listed(sorted({f"{drop.reason} ({drop.signal})" for drop in dropped}))
        recorded = sum(process.records for process in processes)
        share = lost / (lost + recorded)
        severity = Severity.WARNING if share >= thresholds.LOST else Severity.NOTICE
        text = f"{human.amount(lost, 'item')} of telemetry dropped: {reasons}."
        losses.append(Finding("lost_telemetry", severity, text, _SECTION))
    unreadable = sentences.unreadable(collected.reader.problems)
    if unreadable:
        losses.append(Finding("unreadable", Severity.NOTICE, unreadable, _SECTION))
    if not all(site.startswith(OF_PROGRAM) for site in internal_errors(collected.totals)):
        text = "Errors inside the instrumentation itself."
        losses.append(Finding("instrumentation_errors", Severity.WARNING, text, _SECTION))
    return losses + _cut_off(collected)


def _cut_off(collected: Collected) -> list[Finding]:
    """Return ranks that were killed some steps after their last record: the flight recorder knows how far they came."""
    postmortem = collected.rings.postmortem
    if postmortem is None or postmortem.is_running:
        return []
    last = {rank: line.x[-1] for rank, line in collected.steps.by_rank.items()}
    labels = {process.rank: process.label for process in collected.reader.processes}
    found = []
    for ended in postmortem.ranks:
        rank, step = ended.ring.rank, ended.step
        # Of several processes without a rank it is not known whose steps these are.
        is_known = rank in last and (rank is not None or len(postmortem.ranks) == 1)
        if ended.state == GONE and is_known and step is not None and step - last[rank] > 1:
            who, missing = str(labels.get(rank)), step - last[rank] - 1
            lost = f"{human.amount(missing, 'whole step')} {'is' if missing == 1 else 'are'} not here"
            text = f"The records of {who} end with step {last[rank]}, and it was in step {step}: {lost}."
            found.append(Finding(_CUT_OFF, Severity.NOTICE, text, _SECTION))
    return found


def checks(collected: Collected) -> list[Check]:
    """Return whether all losses were counted: a process that was killed counts none."""
    processes = collected.reader.processes
    codes = ("lost_telemetry", _CUT_OFF, "unreadable", "instrumentation_errors")
    if not any(process.manifest is not None for process in processes):
        return [Check.not_recorded(_WHAT, sentences.NO_MANIFEST, codes)]
    ends = process_end.every_end(collected).values()
    # One that has recorded its end has delivered before, however it ended.
    cut = [end.process.label for end in ends if end.process.manifest is not None and not end.is_recorded]
    if cut:
        reason = f"{human.listed(cut)} has not ended in order: what was not delivered is not counted"
        return [Check.not_recorded(_WHAT, reason, codes)]
    return [Check.of(_WHAT, sum(process.records for process in processes), 1, "record", codes)]
