"""Rings and PyTorch's dumps of the same run: where they do not say the same of a collective.

Their numbers count different things, so a collective is known by its group and by when it was launched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.ranks.postmortem import dumps
from otel_rl.ranks.postmortem.ranks import group_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.flight_recorder.reader import Event
    from otel_rl.ranks.postmortem.dump_comparison import Absence, DumpComparison
    from otel_rl.ranks.postmortem.dumps import Dump, DumpEntry
    from otel_rl.ranks.postmortem.ranks import EnteredCollective, RankState
    from otel_rl.ranks.postmortem.waits import Waits

#: ns that the wall clock of a ring, computed from its monotonic one, may be off.
_SLACK = 1_000_000
#: An operation as the rings name it -> what PyTorch's names of it contain.
_NAMES = {
    "all_reduce": ("all_reduce", "allreduce"),
    "all_gather": ("all_gather", "allgather", "broadcast"),
    # Gloo reduces all and takes a part.
    "reduce_scatter": ("reduce_scatter", "all_reduce"),
    "all_to_all": ("all_to_all", "alltoall"),
}


def differences(states: list[RankState], waits: Waits, found: DumpComparison) -> list[str]:
    """Sentences, one for each collective of which a ring and a dump say what cannot both be true."""
    lines: list[str] = []
    for state in states:
        dump = found.of(state.ring.rank)
        for entry in dump.last if dump is not None else ():
            launch = _launch(state, entry)
            if dump is not None and launch is not None:
                lines += _of_one(state, launch, dump, entry)
    for wait in waits.waits:
        lines += _entered_by_dump(wait.waiting, wait.missing, wait.collective, found)
    for absence in found.absences:
        lines += _entered_by_ring(absence, states, found)
    return list(dict.fromkeys(lines))


def _of_one(state: RankState, launch: Event, dump: Dump, entry: DumpEntry) -> Iterator[str]:
    """Compare what the ring and the dump of one rank say of one collective."""
    names = _NAMES.get(launch.name, (launch.name,))
    if launch.name != layout.OTHER_TEXT and not any(name in entry.operation.lower() for name in names):
        yield f"{state.label}: its ring says {launch.name}, its dump says {entry.words}, of the same collective"
    waits = [event for event in (*state.ring.records, *state.ring.open) if _is_wait_for(event, launch)]
    if entry.is_over and any(event.what == layout.BEGIN for event in waits):
        yield f"{state.label}: its ring says that it waits in {entry.words}, its dump says that this is {entry.state}"
    returned = [event.moment for event in waits if event.what == layout.DONE]
    if entry.backend == dumps.GLOO and not entry.is_over and returned and state.ring.wall(max(returned)) < dump.written:
        yield (
            f"{state.label}: its ring says that its wait for {entry.words} was over before its dump was written,"
            f" which says {entry.state}"
        )


def _entered_by_dump(
    waiting: RankState, missing: RankState, collective: EnteredCollective, found: DumpComparison
) -> Iterator[str]:
    """The rings say that a rank did not enter; does its dump say that it did?"""
    own, other = found.of(waiting.ring.rank), found.of(missing.ring.rank)
    launch = _last_launch(waiting, collective)
    entry = _entry_of(own, waiting, launch) if own is not None and launch is not None else None
    if entry is not None and other is not None and other.entered(entry.group) >= (entry.number or 0):
        yield (
            f"the rings say that {missing.label} did not enter {collective.words}, its dump says that it did (number"
            f" {entry.number})"
        )


def _entered_by_ring(absence: Absence, states: list[RankState], found: DumpComparison) -> Iterator[str]:
    """The dumps say that a rank did not enter; does its ring say that it did?"""
    by_rank = {state.ring.rank: state for state in states}
    waiting = by_rank.get(absence.collective.rank)
    launch = _launch(waiting, absence.collective) if waiting is not None else None
    if launch is None or not launch.sequence:
        return
    for rank in absence.missing:
        state, dump = by_rank.get(rank), found.of(rank)
        own = (
            next((event for event in _launches(state) if _is_same(event, launch)), None) if state is not None else None
        )
        if state is None or dump is None or own is None:
            continue
        late = state.ring.wall(own.began) > dump.written
        yield (
            f"the dumps say that {state.label} did not enter {absence.collective.words}, its ring says that it did,"
            f" {'after' if late else 'before'} its dump was written"
        )


def _launches(state: RankState) -> Iterator[Event]:
    return (event for event in (*state.ring.records, *state.ring.open) if event.kind == layout.COLLECTIVE)


def _launch(state: RankState, entry: DumpEntry) -> Event | None:
    """The launch in which PyTorch recorded ``entry``."""
    created, group = entry.created, entry.group
    if created is None:
        return None
    near = []
    for event in _launches(state):
        end = created if event.what == layout.BEGIN else state.ring.wall(event.moment)
        began = state.ring.wall(event.began)
        if began - _SLACK <= created <= end + _SLACK and group_of(event.group)[:2] == group[:2]:
            near.append((abs(created - began), event))
    return min(near, key=lambda one: one[0])[1] if near else None


def _entry_of(dump: Dump, state: RankState, launch: Event) -> DumpEntry | None:
    """The entry that PyTorch recorded in ``launch``."""
    began, group = state.ring.wall(launch.began), group_of(launch.group)
    near = [
        (abs(entry.created - began), entry)
        for entry in dump.entries
        if entry.number is not None and entry.created is not None and entry.group[:2] == group[:2]
    ]
    nearest = min(near, key=lambda one: one[0])[1] if near else None
    return nearest if nearest is not None and _launch(state, nearest) is launch else None


def _last_launch(state: RankState, collective: EnteredCollective) -> Event | None:
    found = [
        event
        for event in _launches(state)
        if event.sequence
        and event.sequence == collective.number
        and event.is_numbered_by_torch == collective.numbering.is_of_torch
        and group_of(event.group) == collective.group
    ]
    return found[-1] if found else None


def _is_same(event: Event, other: Event) -> bool:
    return (event.group, event.sequence, event.is_numbered_by_torch) == (
        other.group,
        other.sequence,
        other.is_numbered_by_torch,
    )


def _is_wait_for(event: Event, launch: Event) -> bool:
    return event.kind == layout.WAIT and bool(event.sequence) and _is_same(event, launch)
