"""The rank that the others wait for: of the whole run, of its last steps, and as the job reported it."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from otel_rl.ranks.stragglers.lasting import chance
from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity, are_at_once, unexplained
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.ranks import last_rank_finding, last_steps, own_work, told

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return one finding for each rank that is, or was, late, and of which no change tells the reason."""
    changes = known["changes"]
    late = last_rank_finding.add_to(_late_ranks(collected), collected)
    for finding in late:
        _excuse_busy_machine(finding, collected)
    return unexplained(_not_of_several(late, changes), changes)


def _excuse_busy_machine(finding: Finding, collected: Collected) -> None:
    """Make a late rank a notice if it was late because others had its CPU."""
    waits = {rank: fmean(line.means) for rank, line in collected.steps.cpu_waits.items() if line.x}
    totals = collected.steps.ranks.get(finding.ranks[0]) if len(finding.ranks) == 1 else None
    others = [wait for rank, wait in waits.items() if [rank] != finding.ranks]
    if totals is None or not others or not finding.cost:
        return
    own = waits.get(finding.ranks[0], 0.0)
    if own - fmean(others) >= thresholds.OF_BUSY * finding.cost * totals.steps.mean:
        finding.severity = Severity.NOTICE
        finding.evidence.append(
            f"The machine was busy: it waited {human.duration(own)} a step for a CPU that others had, and the other"
            f" ranks {human.duration(fmean(others))}."
        )


def _not_of_several(late: list[Finding], changes: list[Finding]) -> list[Finding]:
    """Return the late ranks that are not, all at once, those of a change, or of uneven batches: its symptoms."""
    ranks = {rank for finding in late for rank in finding.ranks}
    left: list[Finding] = []
    for finding in late:
        causes = (change for change in changes if len(change.ranks) > 1 and ranks.issuperset(change.ranks))
        uneven = (change for change in changes if change.section == "ranks" and are_at_once(finding, change))
        cause = next((change for change in causes if finding.ranks[0] in change.ranks), None) or next(uneven, None)
        to = left if cause is None else cause.symptoms
        to.append(finding)
    return left


def checks(collected: Collected) -> list[Check]:
    """Return whether the ranks could be compared."""
    what, codes = "late ranks", ("late_rank", "slower_rank", "slower_collectives", "hang")
    program = workload.of(collected)
    if program.trains and program.ranks < 2:  # noqa: PLR2004 - nothing to compare
        return [Check.not_applicable(what, "the job has one rank", codes)]
    return [last_rank_finding.check(collected, what, codes) or _by_hosts(collected, what, codes)]


def _by_hosts(collected: Collected, what: str, codes: tuple[str, ...]) -> Check:
    program, steps = workload.of(collected), collected.steps
    ranks = len([rank for rank in steps.ranks if rank is not None])
    if not program.trains or not ranks:
        make = (
            Check.not_recorded if program.ranks > 1 and (program.trains or program.may_train) else Check.not_applicable
        )
        return make(what, program.without_steps or sentences.NO_STEP, codes)
    if ranks < 2:  # noqa: PLR2004 - nothing to compare
        return Check.not_recorded(what, f"the steps are of one rank of {program.ranks}", codes)
    if not steps.seen.count:
        return Check.not_recorded(what, "the collectives of its steps are not seen", codes)
    if not any(totals.collectives.total for totals in steps.ranks.values()):
        return Check.not_applicable(what, "no rank waits for another: there are no collectives", codes)
    number = steps.count_slowest()
    basis = f"{workload.steps_with_spans(collected)}{_not_whole(collected)}"
    return Check.of(what, number, _fewest_steps(ranks), "step", codes, basis)


def _fewest_steps(ranks: int) -> int:
    """Return the steps of which one rank has to be the late one in all, for chance not to explain it."""
    limit = thresholds.LATE_BY_CHANCE
    return next(steps for steps in range(own_work.FEWEST_STEPS, 100) if chance(steps, steps, 1 / ranks) <= limit)


def _not_whole(collected: Collected) -> str:
    comparison = collected.rings.comparison
    return f"; {comparison.incomplete}" if comparison is not None and comparison.not_whole else ""


def _late_ranks(collected: Collected) -> list[Finding]:
    over_all = own_work.late_ranks(collected.steps)
    late = own_work.findings(collected, over_all, last_steps.places(collected))
    of_last = last_steps.late_ranks(collected, {finding.ranks[0] for finding in late})
    since: dict[int, int] = {}
    for one in (*over_all, *of_last):
        first = one.steps[0].key.iteration
        since[one.rank] = min(first, since.get(one.rank, first))
    for found in last_steps.findings(collected, of_last):
        same = _of_rank(found.ranks[0], late)
        if same is None:
            late.append(found)
        else:
            same.evidence.append(found.text)
    for rank, stretches in told.told(collected).items():
        same = _of_rank(rank, late)
        is_earlier = same is not None and since.get(rank, stretches[0].since) < stretches[0].since
        reported = told.finding(collected, stretches, is_earlier=is_earlier)
        if same is not None:
            if not is_earlier:
                same.onset = reported.onset
            same.evidence.append(reported.text)
        elif told.is_notable(collected, stretches, reported.cost):
            late.append(reported)
    return late


def _of_rank(rank: int, late: list[Finding]) -> Finding | None:
    return next((finding for finding in late if finding.ranks == [rank]), None)
