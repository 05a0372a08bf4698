"""The own work of one rank in one step, from wait to wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.stragglers.meetings import Meeting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.ranks.model.collectives import Collective
    from otel_rl.ranks.stragglers.timeline import RankStep

#: What a rank did outside of all phases.
OUTSIDE = ""


class WorkBeforeWait(NamedTuple):
    """What a rank did up to one wait, since the one before."""

    collective: Collective
    #: Phase in which it waits, of phases in each other the innermost; outside of all, the last one before.
    phase: str
    #: Phase -> ns of work.
    work: Counter[str]


class _Change(NamedTuple):
    """At a moment a phase begins or ends, or a wait does."""

    moment: int
    phase: str = OUTSIDE
    begins: bool = False
    #: What is waited for from here on.
    waits_for: Collective | None = None
    ends_wait: bool = False


def meetings(steps: Mapping[int, RankStep]) -> list[Meeting]:
    """Return what the ranks did before each collective for which several of them wait, in the order of the first."""
    work: dict[Collective, dict[int, Counter[str]]] = {}
    phases: dict[Collective, str] = {}
    operations: dict[Collective, str] = {}
    for rank, step in steps.items():
        for stretch in stretches(step):
            of_rank = work.setdefault(stretch.collective, {}).setdefault(rank, Counter())
            of_rank.update(stretch.work)
            phases.setdefault(stretch.collective, stretch.phase)
        operations.update(step.operations)
    return [
        Meeting(collective, operations.get(collective, ""), phases[collective], of_ranks)
        for collective, of_ranks in work.items()
        if len(of_ranks) > 1
    ]


def stretches(step: RankStep) -> Iterator[WorkBeforeWait]:
    """Yield the work of ``step`` up to each of its waits; what follows the last one is part of the next step."""
    work: Counter[str] = Counter()
    now, waits, phases, last = step.since, 0, [OUTSIDE], OUTSIDE
    for change in _changes(step):
        if not waits and change.moment > now:
            work[phases[-1]] += change.moment - now
        now = max(now, change.moment)
        if change.waits_for is not None:
            yield WorkBeforeWait(change.waits_for, phases[-1] or last, work)
            work, waits = Counter(), waits + 1
        elif change.ends_wait:
            waits -= 1
        elif change.begins:
            phases.append(change.phase)
        elif change.phase in phases[1:]:
            # The innermost of its name: phases end in the reverse order of their begins.
            del phases[len(phases) - 1 - phases[::-1].index(change.phase)]
            last = change.phase


def _changes(step: RankStep) -> list[_Change]:
    """In order of time."""
    changes = []
    for phase in step.phases:
        changes += [
            _Change(max(phase.began, step.since), phase.name, begins=True),
            _Change(min(phase.ended, step.ended), phase.name),
        ]
    for wait in step.waits:
        changes += [
            _Change(wait.began, waits_for=wait.collective),
            _Change(min(wait.ended, step.ended), ends_wait=True),
        ]
    return sorted(changes, key=lambda change: change.moment)
