"""PyTorch's dumps in words: a table and sentences for a person, and JSON for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.ranks.postmortem import dump_comparison, dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.ranks.postmortem.dump_comparison import Absence, DumpComparison, Mismatch
    from otel_rl.ranks.postmortem.dumps import Dump, DumpEntry, Tensors

TITLES = ("rank", "group", "collective", "number", "state", "shape", "ago", "called from")
#: So many ranks, rows and groups of a rank are written out.
_SHOWN, _ROWS, _GROUPS = 8, 64, 4
_DISAGREE = {
    dump_comparison.OPERATION: "the ranks issued different operations",
    dump_comparison.SHAPE: "the ranks gave different shapes",
    dump_comparison.TYPE: "the ranks gave different types",
}


def rows(comparison: DumpComparison, at: int) -> list[tuple[str, ...]]:
    """Return the last collective of each rank and group: cells below :data:`TITLES`."""
    every = [_row(entry, at) for dump in comparison.dumps for entry in dump.last[:_GROUPS]]
    left = len(every) - _ROWS
    return every[:_ROWS] + ([(f"and {left} more", *("-",) * (len(TITLES) - 1))] if left > 0 else [])


def last_of(dump: Dump, at: int) -> tuple[str, str, str]:
    """Return what the rank did last, its number, and how long ago, for the table of ranks."""
    entry = next(iter(dump.last), None)
    if entry is None:
        return "-", "-", "-"
    return f"{entry.state} {entry.operation}", _number_text(entry), _ago(entry, at)


def waits(comparison: DumpComparison) -> list[str]:
    """Sentences that say who did not enter what the others wait in."""
    return [
        f"{named_ranks(absence.waiting)} issued {absence.collective.words} ({absence.collective.state}), which"
        f" {named_ranks(absence.missing)} did not enter{_where(absence.collective)}"
        for absence in comparison.absences
    ]


def unknown(comparison: DumpComparison) -> list[str]:
    """Sentences that say of which ranks it is not known whether they entered."""
    return [
        f"rank {entry.collective.rank} issued {entry.collective.words} ({entry.collective.state}); whether"
        f" {named_ranks(entry.ranks)} entered it is not known: {entry.reason}"
        for entry in comparison.unknown
    ] + [
        f"rank {dump.rank}: {dump.torn} entries of its dump make no sense and are left out"
        for dump in comparison.dumps
        if dump.torn
    ]


def verdict(comparison: DumpComparison) -> list[str]:
    """Sentences that say at whom the waits end, and what cannot fit."""
    by_missing = [
        f"{named_ranks(absence.missing)} did not enter {absence.collective.words}, in which {_waiters(absence)}"
        for absence in comparison.absences
    ]
    return [
        *map(_mismatch, comparison.mismatches),
        *by_missing,
        *(_entered_by_all(entry, comparison) for entry in comparison.entered_by_all),
        *(f"rank {entry.rank} is in {entry.words} ({entry.state})" for entry in comparison.unmatched),
    ]


def _entered_by_all(collective: DumpEntry, comparison: DumpComparison) -> str:
    late = next(
        (
            entry
            for entry in comparison.not_begun
            if (entry.group, entry.number) == (collective.group, collective.number)
        ),
        None,
    )
    if late is None:
        return f"all ranks are in {collective.words}: it is slow, or the network is"
    return f"all ranks issued {collective.words}; the device of rank {late.rank} has not begun it, those of others have"


def _waiters(absence: Absence) -> str:
    # It may have given up: gloo raises an error, NCCL ends the process.
    verb = "waited" if absence.collective.state in (dumps.RETURNED, dumps.TIMED_OUT) else "waits"
    return f"{named_ranks(absence.waiting)} {'wait' if verb == 'waits' and len(absence.waiting) > 1 else verb}"


def _mismatch(mismatch: Mismatch) -> str:
    issued = ", ".join(f"{named_ranks(ranks)} {what}" for what, ranks in mismatch.issued[:_SHOWN])
    entry = mismatch.collective
    name = (
        entry.words
        if mismatch.what != dump_comparison.OPERATION
        else f"number {entry.number} of group {entry.group.words}"
    )
    return f"{_DISAGREE[mismatch.what]} in {name}: {issued}; that hangs, or gives wrong data{_where(entry)}"


def as_json(comparison: DumpComparison) -> dict[str, Any]:
    """Return the same, with moments in ns since the epoch."""
    return {
        "ranks": [_dump_as_json(dump) for dump in comparison.dumps],
        "absences": [
            {**_key(absence.collective), "waiting": list(absence.waiting), "missing": list(absence.missing)}
            for absence in comparison.absences
        ],
        "mismatches": [
            {
                "what": mismatch.what,
                **_key(mismatch.collective),
                "issued": [{"what": what, "ranks": list(ranks)} for what, ranks in mismatch.issued],
            }
            for mismatch in comparison.mismatches
        ],
        "entered_by_all": [_key(collective) for collective in comparison.entered_by_all],
        "not_known": unknown(comparison),
        "notes": comparison.notes,
    }


def _dump_as_json(dump: Dump) -> dict[str, Any]:
    return {
        "rank": dump.rank,
        "file": str(dump.path),
        "version": dump.version,
        "written_unix_nano": dump.written,
        "entries": len(dump.entries),
        "is_whole": dump.is_whole,
        "last": [_entry_as_json(entry) for entry in dump.last],
    }


def _entry_as_json(entry: DumpEntry) -> dict[str, Any]:
    return {
        **_key(entry),
        "backend": entry.backend,
        "state": entry.state,
        "inputs": _tensors_as_json(entry.inputs),
        "outputs": _tensors_as_json(entry.outputs),
        "created_unix_nano": entry.created,
        "started_unix_nano": entry.started,
        "completed_unix_nano": entry.completed,
        "frames": [frame._asdict() for frame in entry.frames],
    }


def _key(entry: DumpEntry) -> dict[str, Any]:
    return {
        "operation": entry.operation,
        "group": entry.group.name,
        "group_description": entry.group.description,
        "number": entry.number,
    }


def _tensors_as_json(tensors: Tensors) -> dict[str, Any]:
    return {"shapes": [list(shape) for shape in tensors.shapes], "types": list(tensors.types), "more": tensors.more}


def _row(entry: DumpEntry, at: int) -> tuple[str, ...]:
    frame = entry.called_from
    return (
        str(entry.rank),
        entry.group.words,
        entry.operation,
        _number_text(entry),
        entry.state,
        entry.inputs.words or "-",
        f"{_ago(entry, at)} s" if entry.created else "-",
        frame.words if frame is not None else "-",
    )


def _number_text(entry: DumpEntry) -> str:
    return "-" if entry.number is None else str(entry.number)


def _ago(entry: DumpEntry, at: int) -> str:
    return f"{max(at - entry.created, 0) / 1e9:.1f}" if entry.created else "-"


def _where(entry: DumpEntry) -> str:
    frame = entry.called_from
    return f"; rank {entry.rank} called it from {frame.words}" if frame is not None else ""


def named_ranks(numbers: Sequence[object]) -> str:
    """``ranks 0, 1`` for a sentence; of many the first ones, and how many more there are."""
    rest = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_SHOWN]))}{rest}"
