"""Dumps of several ranks beside each other: who did not enter a collective, and what does not fit together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder.reader import KEEP_TOGETHER
from otel_rl.ranks.postmortem.dumps import RETURNED, SCHEDULED, STARTED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from otel_rl.ranks.model.groups import Group
    from otel_rl.ranks.postmortem.dumps import Dump, DumpEntry, Tensors

#: Description of the group of all ranks.
_OF_ALL = "default_pg"
#: ns that the time of a file may lag behind the clock: file systems take that of the kernel's last tick.
_TICK = 10_000_000
OPERATION, SHAPE, TYPE = "operation", "shape", "type"
#: Of a larger group, those ranks are looked at that have a dump.
_MOST_RANKS = 1 << 16


class Absence(NamedTuple):
    """``waiting`` issued ``collective``, which is not over in them and which ``missing`` did not issue."""

    collective: DumpEntry
    waiting: tuple[int, ...]
    missing: tuple[int, ...]


class UnknownEntry(NamedTuple):
    """Whether ``ranks`` entered ``collective`` is not known, and why."""

    collective: DumpEntry
    ranks: tuple[int, ...]
    reason: str


class Mismatch(NamedTuple):
    """Ranks issued ``collective`` with another operation, shape or type of data."""

    what: str
    collective: DumpEntry
    #: What was issued, and by which ranks.
    issued: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass
class DumpComparison:
    """The dumps of all ranks, and where they differ."""

    dumps: list[Dump] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    unknown: list[UnknownEntry] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    #: Collectives that all their ranks have entered, and that are over in none of them.
    entered_by_all: list[DumpEntry] = field(default_factory=list)
    #: Of those, the ones that a device has not begun while others have.
    not_begun: list[DumpEntry] = field(default_factory=list)
    #: Sends and receives that are not over.
    unmatched: list[DumpEntry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ranks(self) -> set[int]:
        """Ranks that have a dump, or are in a group of one."""
        groups = {group for dump in self.dumps for group in dump.numbered}
        small = [group.members for group in groups if group.members is not None and len(group.members) <= _MOST_RANKS]
        return {dump.rank for dump in self.dumps}.union(*small)

    def of(self, rank: int | None) -> Dump | None:
        """Return the dump of ``rank``."""
        return next((dump for dump in self.dumps if dump.rank == rank), None)


def compare(dumps: list[Dump], notes: list[str]) -> DumpComparison:
    """Compare the dumps with each other."""
    comparison = DumpComparison(dumps, notes=notes)
    # In the order in which they were first used.
    for group in dict.fromkeys(group for dump in dumps for group in dump.numbered):
        by_rank = {dump.rank: dump for dump in dumps if _is_member(dump, group)}
        _find_mismatch(comparison, group, by_rank)
        _find_absence(comparison, group, by_rank)
    comparison.unmatched = [entry for dump in dumps for entry in dump.last if entry.number is None]
    return comparison


def _is_member(dump: Dump, group: Group) -> bool:
    if group.members is None:
        return group in dump.numbered or group.description == _OF_ALL
    return dump.rank in group.members


def _find_absence(comparison: DumpComparison, group: Group, by_rank: dict[int, Dump]) -> None:
    """Look at the first collective of the group that is not over: later ones wait for it."""
    waiting: dict[int, list[DumpEntry]] = defaultdict(list)
    least = min((dump.entered(group) for dump in by_rank.values()), default=0)
    for dump in by_rank.values():
        for number, entries in dump.numbered.get(group, {}).items():
            waiting[number] += [entry for entry in entries if not entry.is_over or _has_failed(entry, least)][:1]
    for number in sorted(number for number, entries in waiting.items() if entries):
        entries = sorted(waiting[number], key=lambda entry: entry.rank)
        missing, unknown = _missing(group, entries[0], by_rank)
        entered_by_all = len(entries) == (group.size or len(by_rank))
        comparison.unknown += unknown
        if missing:
            comparison.absences.append(Absence(entries[0], tuple(entry.rank for entry in entries), missing))
        if entered_by_all:
            comparison.entered_by_all.append(entries[0])
            comparison.not_begun += _not_begun(entries)
        if missing or unknown or entered_by_all:
            return


def _not_begun(entries: list[DumpEntry]) -> list[DumpEntry]:
    """Return the first rank whose device has not begun it. Where none has begun it, PyTorch may not have looked."""
    if not any(entry.state == STARTED for entry in entries):
        return []
    return [entry for entry in entries if entry.state == SCHEDULED][:1]


def _has_failed(entry: DumpEntry, least: int) -> bool:
    """Return whether gloo has returned from what a rank did not enter."""
    is_together = any(name in entry.operation for name in KEEP_TOGETHER)
    return entry.state == RETURNED and is_together and (entry.number or 0) > least


def _missing(
    group: Group, collective: DumpEntry, by_rank: dict[int, Dump]
) -> tuple[tuple[int, ...], list[UnknownEntry]]:
    """Ranks that did not enter ``collective``, and those of which it is not known."""
    missing, unknown = [], defaultdict(list)
    members = group.members
    for rank in sorted(by_rank if members is None or len(members) > _MOST_RANKS else members):
        dump = by_rank.get(rank)
        if dump is not None and dump.entered(group) >= (collective.number or 0):
            continue
        reason = _why_unknown(dump, group, collective)
        if reason:
            unknown[reason].append(rank)
        else:
            missing.append(rank)
    return tuple(missing), [UnknownEntry(collective, tuple(of), reason) for reason, of in unknown.items()]


def _why_unknown(dump: Dump | None, group: Group, collective: DumpEntry) -> str:
    """Why it cannot be said that the rank did not enter; empty where it can."""
    if dump is None:
        return "there is no dump of it"
    if not dump.entries:
        return "its dump holds no collective"
    if collective.created is not None and dump.written + _TICK < collective.created:
        return "its dump was written before"
    if not dump.is_whole and group not in dump.numbered:
        return "its dump does not reach back to its first collective, and holds none of the group"
    return ""


def _find_mismatch(comparison: DumpComparison, group: Group, by_rank: dict[int, Dump]) -> None:
    """Find the first: what follows is only its consequence."""
    numbers = {number for dump in by_rank.values() for number in dump.numbered.get(group, ())}
    for number in sorted(numbers):
        issued = {
            rank: dump.numbered[group][number]
            for rank, dump in by_rank.items()
            if number in dump.numbered.get(group, ())
        }
        mismatch = _mismatch(issued)
        if mismatch is not None:
            comparison.mismatches.append(mismatch)
            return


def _mismatch(issued: dict[int, list[DumpEntry]]) -> Mismatch | None:
    looks: tuple[tuple[str, Callable[[DumpEntry], Hashable], Callable[[Iterable[DumpEntry]], str]], ...] = (
        (OPERATION, lambda entry: entry.operation, lambda entries: " and ".join(entry.operation for entry in entries)),
        (SHAPE, lambda entry: _compared(entry).shapes, _in_words),
        (TYPE, lambda entry: _compared(entry).types, _in_words),
    )
    for what, look, words in looks:
        ranks: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
        for rank, entries in issued.items():
            ranks[tuple(map(look, entries))].append(rank)
        if len(ranks) > 1:
            first = min(issued)
            issues = tuple((words(issued[of[0]]), tuple(sorted(of))) for of in ranks.values())
            return Mismatch(what, issued[first][0], tuple(sorted(issues, key=lambda issue: issue[1])))
    return None


def _in_words(entries: Iterable[DumpEntry]) -> str:
    return " and ".join(_compared(entry).words or "no data" for entry in entries)


def _compared(entry: DumpEntry) -> Tensors:
    """Return what has to be alike in all ranks: in a scatter only one rank has something to give."""
    tensors = entry.outputs if entry.operation == "scatter" else entry.inputs
    may_differ = "all_to_all" in entry.operation or "_v" in entry.operation
    return tensors._replace(shapes=(), more=0) if may_differ else tensors
