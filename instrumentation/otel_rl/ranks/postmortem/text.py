"""A postmortem as a table and sentences for a person, and as JSON for a program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import layout
from otel_rl.ranks.postmortem import dump_text, ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.process.exit_records import Exit
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.ranks.postmortem.ranks import EnteredCollective, RankState

TITLES = ("rank", "host", "pid", "step", "in", "collective", "number", "ago", "process")
_OUTCOMES = {"open": "waits in", "failed": "failed in", "done": "after"}
_FIRST = {
    ranks.GONE: "stopped first",
    ranks.ENDED: "stopped first",
    ranks.RUNNING: "is stuck",
    ranks.UNKNOWN: "stopped first or is stuck",
}
#: So many waits of one kind are written out.
_SHOWN = 8
_RINGS, _DUMPS = "by the rings", "by PyTorch's dumps"


def as_text(found: Postmortem) -> str:
    """The table of ranks, who waits for whom, and where that ends."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.at / 1e9))
    when = f"now, {moment}" if found.is_running else f"the last sign of the run, {moment}"
    parts = [f"run {found.run_id}; seconds before {when}", _table(TITLES, rows(found))]
    dumped = dump_rows(found)
    if dumped:
        parts.append(f"PyTorch's dumps, the last collective of each group:\n\n{_table(dump_text.TITLES, dumped)}")
    blocks = (waits(found), unknown(found), verdict(found))
    parts += ["\n".join(sentences) for sentences in blocks if sentences]
    parts += [f"note: {note}" for note in notes(found)]
    return "\n\n".join(parts)


def rows(found: Postmortem) -> list[tuple[str, ...]]:
    """The table of ranks: cells below :data:`TITLES`."""
    return [
        *(_row(found, one) for one in found.ranks),
        *(_row_without_ring(found, rank, what) for rank, what in found.missing.items()),
    ]


def dump_rows(found: Postmortem) -> list[tuple[str, ...]]:
    """The table of PyTorch's dumps: cells below :data:`.dump_text.TITLES`."""
    return dump_text.rows(found.dumps, found.at)


def notes(found: Postmortem) -> list[str]:
    """What could not be read, and what was left out."""
    return [*found.notes, *_old_copies(found), *found.dumps.notes]


def _old_copies(found: Postmortem) -> list[str]:
    old = [one.label for one in found.ranks if one.is_old_copy]
    if not old:
        return []
    who = ", ".join(_bounded(old))
    return [f"only a copy of the ring, made while the process ran, was found of {who}: where it was later is not known"]


def as_json(found: Postmortem) -> dict[str, Any]:
    """The same, with moments in ns since the epoch."""
    return {
        "run_id": found.run_id,
        "at_unix_nano": found.at,
        "is_running": found.is_running,
        "ranks": [_rank_as_json(one) for one in found.ranks],
        "missing_ranks": {str(rank): what for rank, what in found.missing.items()},
        "waits": [
            {"rank": wait.waiting.ring.rank, "for_rank": wait.missing.ring.rank, **_as_json(wait.collective)}
            for wait in found.waits.waits
        ],
        "not_known": unknown(found),
        "origins": [one.ring.rank for one in found.waits.origins],
        "circle": [one.ring.rank for one in found.waits.circle],
        "verdict": verdict(found),
        "torch_dumps": dump_text.as_json(found.dumps),
        "notes": notes(found),
    }


def _rank_as_json(one: RankState) -> dict[str, Any]:
    return {
        "rank": one.ring.rank,
        "host": one.ring.host,
        "pid": one.ring.lifetime.pid,
        "state": one.state,
        "cause": one.cause,
        "exit": _exit_as_json(one.exit) if one.exit is not None else None,
        "step": one.step,
        "step_is_open": one.step_is_open,
        "inside": one.inside,
        "collective": _as_json(one.collective) if one.collective is not None else None,
        "last_record_unix_nano": one.ring.wall(one.last),
        "heartbeat_unix_nano": one.ring.wall(one.ring.heartbeat) if one.ring.heartbeat else None,
        "ring": str(one.ring.path),
        "torn_records": one.ring.torn,
    }


def _exit_as_json(seen: Exit) -> dict[str, Any]:
    return {
        "status": seen.status,
        "reported_by": seen.reported_by,
        "reporting_pid": seen.parent,
        "at_unix_nano": seen.at_unix_nano,
        "oom_kills": seen.oom_kills,
    }


def _as_json(collective: EnteredCollective) -> dict[str, Any]:
    return {
        "operation": collective.operation,
        "group": collective.group.name,
        "group_description": collective.group.description,
        "number": collective.number or None,
        "outcome": collective.outcome,
    }


def _row(found: Postmortem, one: RankState) -> tuple[str, ...]:
    collective = one.collective
    step = "-" if one.step is None else f"{one.step}" if one.step_is_open else f"{one.step} (over)"
    seen = "; seen up to the copy of its ring" if one.is_old_copy else ""
    return (
        str(one.ring.rank) if one.ring.rank is not None else "-",
        one.ring.host,
        str(one.ring.lifetime.pid),
        step,
        " > ".join(one.inside) or "-",
        f"{_OUTCOMES[collective.outcome]} {collective.operation}" if collective is not None else "-",
        str(collective.number or "-") if collective is not None else "-",
        f"{_seconds(found, one.ring.wall(one.last))} s",
        f"{one.cause}{seen}",
    )


def _row_without_ring(found: Postmortem, rank: int, what: str) -> tuple[str, ...]:
    dump = found.dumps.of(rank)
    collective, number, ago = dump_text.last_of(dump, found.at) if dump is not None else ("-", "-", "-")
    return str(rank), "-", "-", "-", "-", collective, number, ago if ago == "-" else f"{ago} s", what


def _seconds(found: Postmortem, moment: int) -> str:
    return f"{max(found.at - moment, 0) / 1e9:.1f}"


def waits(found: Postmortem) -> list[str]:
    """Sentences that say who waits for whom."""
    by_collective: dict[tuple[int, EnteredCollective], list[str]] = {}
    for wait in found.waits.waits:
        by_collective.setdefault((id(wait.waiting), wait.collective), []).append(str(wait.missing.ring.rank))
    waiting = {id(wait.waiting): wait.waiting for wait in found.waits.waits}
    lines = [
        f"{waiting[who].label} {_OUTCOMES[collective.outcome]} {collective.words}, which"
        f" {dump_text.named_ranks(missing)} did not enter"
        for (who, collective), missing in by_collective.items()
    ]
    return [*_by(_RINGS, found, _bounded(lines)), *_by(_DUMPS, found, _bounded(dump_text.waits(found.dumps)))]


def unknown(found: Postmortem) -> list[str]:
    """Sentences that say of which collectives it is not known who has entered them."""
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for one in found.waits.unknown:
        key = one.waiting.label, f"{_OUTCOMES[one.collective.outcome]} {one.collective.words}", one.reason
        by_reason.setdefault(key, []).append(str(one.other.ring.rank))
    lines = _bounded(
        [
            f"{who} {collective}; whether {dump_text.named_ranks(others)} entered it is not known: {reason}"
            for (who, collective, reason), others in by_reason.items()
        ]
        + [
            f"{one.label} has {sum(one.ring.unlisted)} more operations open (no collectives) than its ring has places"
            for one in found.ranks
            if any(one.ring.unlisted)
        ]
    )
    return [*_by(_RINGS, found, lines), *_by(_DUMPS, found, _bounded(dump_text.unknown(found.dumps)))]


def verdict(found: Postmortem) -> list[str]:
    """Sentences that say where the waits end."""
    by_rings = _bounded(_verdict_of_rings(found))
    if not found.dumps.dumps:
        return by_rings or _without_waits(found)
    by_dumps = _by(_DUMPS, found, _bounded(dump_text.verdict(found.dumps)))
    if by_rings:
        return [*_by(_RINGS, found, by_rings), *(by_dumps or [f"{_DUMPS}: no rank is known to wait for another"])]
    # With NCCL only PyTorch sees who waits.
    return [*by_dumps, *_by(_RINGS, found, _without_waits(found) if found.ranks else [])] or _without_waits(found)


def _verdict_of_rings(found: Postmortem) -> list[str]:
    between = found.waits
    sentences = [_of_origin(found, one) for one in between.origins]
    if between.circle:
        names = [one.label for one in (*between.circle, between.circle[0])]
        sentences.append(f"deadlock: {' waits for '.join(names)}")
    sentences += [
        f"{first.label} issued {collective.words}, {second.label} issued {operation} under the same number: the program"
        " takes different paths"
        for first, collective, second, operation in between.mismatches
    ]
    return [
        *sentences,
        *(f"all ranks are in {one.words}: it is slow, or the network is" for one in between.entered_by_all),
    ]


def _by(source: str, found: Postmortem, lines: list[str]) -> list[str]:
    """Name the source where there are two."""
    return [f"{source}: {line}" for line in lines] if found.dumps.dumps else lines


def _of_origin(found: Postmortem, one: RankState) -> str:
    collective = found.waits.on(one)[0].collective
    where = "before its first step" if one.step is None else f"{'in' if one.step_is_open else 'after'} step {one.step}"
    inside = f" ({' > '.join(one.inside)})" if one.inside else ""
    seconds = _seconds(found, one.ring.wall(one.last))
    when = "ago" if found.is_running else "before the last sign of the run"
    return (
        f"{one.label} {_FIRST[one.state]} {where}{inside} and did not enter {collective.words}; its last record was"
        f" {seconds} s {when}{_own_wait(one)}; {one.cause}"
    )


def _own_wait(one: RankState) -> str:
    """It is in a collective itself, of which nothing is known."""
    waiting = [collective for collective in one.unfinished if collective.outcome == "open"]
    return f"; it waits in {waiting[-1].words}, for whom is not known" if waiting else ""


def knows_waits(found: Postmortem) -> bool:
    """True where some rank is known to wait for another, or all of them for a collective."""
    return bool(_verdict_of_rings(found) or dump_text.verdict(found.dumps))


def _without_waits(found: Postmortem) -> list[str]:
    """What ended processes comes first: that nobody waits for them explains nothing."""
    failed = sorted((one for one in found.ranks if one.has_failed), key=lambda one: one.ring.wall(one.last))
    return [*_bounded([_failure(one) for one in failed]), *standings(found)]


def _failure(one: RankState) -> str:
    return f"{one.label}{'' if one.step is None else f' at step {one.step}'}: {one.cause}"


def standings(found: Postmortem) -> list[str]:
    """Where ranks are that do not wait for each other; nothing of a single process, which has none to wait for."""
    if sum(one.ring.rank is not None for one in found.ranks) + len(found.missing) <= 1:
        return []
    known = [one for one in found.ranks if not one.is_old_copy]
    sentences = ["no rank is known to wait for another"]
    by_step = [one for one in known if one.ring.rank is not None and one.step is not None]
    least = min((one.step or 0 for one in by_step), default=0)
    behind = [one for one in by_step if one.step == least]
    if len(behind) < len(by_step):
        sentences.append(f"the lowest step is {least}, of {', '.join(one.label for one in behind[:_SHOWN])}")
    return ["; ".join(sentences), *_behind(found)]


def _behind(found: Postmortem) -> list[str]:
    """Ranks that have entered fewer collectives of a group: with NCCL no rank shows that it waits."""
    # What an old copy lacks may have been entered since.
    known = [one for one in found.ranks if not one.is_old_copy]
    numberings = {numbering for one in known for numbering in one.entered}
    lines = []
    for numbering in sorted(numberings, key=lambda one: (one.group.name, one.is_of_torch)):
        group = numbering.group
        if group.name == layout.OTHER_TEXT or len({one.failed_launches.get(group, 0) for one in found.ranks}) > 1:
            # Their numbers cannot be compared.
            continue
        entered = {one.label: one.entered[numbering] for one in known if numbering in one.entered}
        most = max(entered.values())
        late = [label for label, number in entered.items() if number < most]
        if late:
            lines.append(f"{', '.join(late[:_SHOWN])} entered fewer collectives of group {group.words} than {most}")
    return _bounded(lines)


def _bounded(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more of this kind"]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(titles), ["-" * len(title) for title in titles], *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
