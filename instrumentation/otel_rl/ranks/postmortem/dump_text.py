"""What PyTorch's dumps say: a table and sentences for a person, and JSON for a program."""

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


def rows(found: DumpComparison, at: int) -> list[tuple[str, ...]]:
    """The last collective of each rank and group: cells below :data:`TITLES`."""
    every = [_row(entry, at) for dump in found.dumps for entry in dump.last[:_GROUPS]]
    left = len(every) - _ROWS
    return every[:_ROWS] + ([(f"and {left} more", *("-",) * (len(TITLES) - 1))] if left > 0 else [])


def last_of(dump: Dump, at: int) -> tuple[str, str, str]:
    """What the rank did last, the number of that, and how long ago, for the table of ranks."""
    entry = next(iter(dump.last), None)
    if entry is None:
        return "-", "-", "-"
    return f"{entry.state} {entry.operation}", _number(entry), _ago(entry, at)


def waits(found: DumpComparison) -> list[str]:
    """Sentences that say who did not enter what the others wait in."""
    return [
        f"{named_ranks(one.waiting)} issued {one.collective.words} ({one.collective.state}), which"
        f" {named_ranks(one.missing)} did not enter{_where(one.collective)}"
        for one in found.absences
    ]


def unknown(found: DumpComparison) -> list[str]:
    """Sentences that say of which ranks it is not known whether they entered."""
    return [
        f"rank {one.collective.rank} issued {one.collective.words} ({one.collective.state}); whether"
        f" {named_ranks(one.ranks)} entered it is not known: {one.reason}"
        for one in found.unknown
    ] + [
        f"rank {dump.rank}: {dump.torn} entries of its dump make no sense and are left out"
        for dump in found.dumps
        if dump.torn
    ]


def verdict(found: DumpComparison) -> list[str]:
    """Sentences that say at whom the waits end, and what cannot fit."""
    by_missing = [
        f"{named_ranks(one.missing)} did not enter {one.collective.words}, in which {_waiters(one)}"
        for one in found.absences
    ]
    return [
        *map(_mismatch, found.mismatches),
        *by_missing,
        *(_entered_by_all(one, found) for one in found.entered_by_all),
        *(f"rank {one.rank} is in {one.words} ({one.state})" for one in found.unmatched),
    ]


def _entered_by_all(one: DumpEntry, found: DumpComparison) -> str:
    late = next((entry for entry in found.not_begun if (entry.group, entry.number) == (one.group, one.number)), None)
    if late is None:
        return f"all ranks are in {one.words}: it is slow, or the network is"
    return f"all ranks issued {one.words}; the device of rank {late.rank} has not begun it, those of others have"


def _waiters(one: Absence) -> str:
    # It may have given up: gloo raises an error, NCCL ends the process.
    verb = "waited" if one.collective.state in (dumps.RETURNED, dumps.TIMED_OUT) else "waits"
    return f"{named_ranks(one.waiting)} {'wait' if verb == 'waits' and len(one.waiting) > 1 else verb}"


def _mismatch(one: Mismatch) -> str:
    issued = ", ".join(f"{named_ranks(ranks)} {what}" for what, ranks in one.issued[:_SHOWN])
    entry = one.collective
    name = (
        entry.words if one.what != dump_comparison.OPERATION else f"number {entry.number} of group {entry.group.words}"
    )
    return f"{_DISAGREE[one.what]} in {name}: {issued}; that hangs, or gives wrong data{_where(entry)}"


def as_json(found: DumpComparison) -> dict[str, Any]:
    """The same, with moments in ns since the epoch."""
    return {
        "ranks": [_dump_as_json(dump) for dump in found.dumps],
        "absences": [
            {**_key(one.collective), "waiting": list(one.waiting), "missing": list(one.missing)}
            for one in found.absences
        ],
        "mismatches": [
            {
                "what": one.what,
                **_key(one.collective),
                "issued": [{"what": what, "ranks": list(ranks)} for what, ranks in one.issued],
            }
            for one in found.mismatches
        ],
        "entered_by_all": [_key(one) for one in found.entered_by_all],
        "not_known": unknown(found),
        "notes": found.notes,
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
        _number(entry),
        entry.state,
        entry.inputs.words or "-",
        f"{_ago(entry, at)} s" if entry.created else "-",
        frame.words if frame is not None else "-",
    )


def _number(entry: DumpEntry) -> str:
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
