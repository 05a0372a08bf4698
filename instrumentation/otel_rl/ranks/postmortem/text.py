"""A postmortem as a table and sentences for a person, and as JSON for a program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.ranks.postmortem import chain_text, dump_text, order, ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.flight_recorder.reader import PartOfRun
    from otel_rl.process.exit_records import Exit
    from otel_rl.ranks.model.collectives import EnteredCollective, Numbering
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.ranks.postmortem.waits import RankWait

TITLES = ("rank", "host", "pid", "step", "in", "collective", "number", "ago", "process")
_OUTCOMES = {"open": "waits in", "failed": "failed in", "done": "after"}
_STANDS = {ranks.RUNNING: "is stuck", ranks.UNKNOWN: "stopped or is stuck"}
#: So many waits of one kind are written out.
_SHOWN = 8
_BY_PATHS = "the program takes different paths"
_BY_THREADS = "two threads issue collectives of this group, in an order that differs between ranks"
_RINGS, _DUMPS = "by the rings", "by PyTorch's dumps"


def as_text(postmortem: Postmortem) -> str:
    """Return the table of ranks, who waits for whom, and where that ends."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(postmortem.at / 1e9))
    when = f"now, {moment}" if postmortem.is_running else f"the last sign of the run, {moment}"
    parts = [f"run {postmortem.run_id}; seconds before {when}"]
    if postmortem.ranks or postmortem.missing:
        parts.append(_table(TITLES, rows(postmortem)))
    dumped = dump_rows(postmortem)
    if dumped:
        parts.append(f"PyTorch's dumps, the last collective of each group:\n\n{_table(dump_text.TITLES, dumped)}")
    blocks = (waits(postmortem), unknown(postmortem), verdict(postmortem), chains(postmortem))
    parts += ["\n".join(sentences) for sentences in blocks if sentences]
    parts += [f"note: {note}" for note in notes(postmortem)]
    return "\n\n".join(parts)


def rows(postmortem: Postmortem) -> list[tuple[str, ...]]:
    """Return the table of ranks: cells below :data:`TITLES`."""
    return [
        *(_row(postmortem, state) for state in postmortem.ranks),
        *(_row_without_ring(postmortem, rank, what) for rank, what in postmortem.missing.items()),
    ]


def dump_rows(postmortem: Postmortem) -> list[tuple[str, ...]]:
    """Return the table of PyTorch's dumps: cells below :data:`.dump_text.TITLES`."""
    return dump_text.rows(postmortem.dumps, postmortem.at)


def notes(postmortem: Postmortem) -> list[str]:
    """Return what could not be read, and what was left out."""
    return [*postmortem.notes, *_old_copies(postmortem), *postmortem.dumps.notes]


def _old_copies(postmortem: Postmortem) -> list[str]:
    old = [state.label for state in postmortem.ranks if state.is_old_copy]
    if not old:
        return []
    who = ", ".join(_bounded(old))
    return [f"only a copy of the ring, made while the process ran, was found of {who}: where it was later is not known"]


def as_json(postmortem: Postmortem) -> dict[str, Any]:
    """Return the same, with moments in ns since the epoch."""
    return {
        "run_id": postmortem.run_id,
        "at_unix_nano": postmortem.at,
        "is_running": postmortem.is_running,
        "ranks": [_rank_as_json(state) for state in postmortem.ranks],
        "missing_ranks": {str(rank): what for rank, what in postmortem.missing.items()},
        "waits": [
            {"rank": wait.waiting.ring.rank, "for_rank": wait.missing.ring.rank, **_as_json(wait.collective)}
            for wait in postmortem.waits.waits
        ],
        "not_known": unknown(postmortem),
        "origins": [state.ring.rank for state in postmortem.waits.origins],
        "circle": [state.ring.rank for state in postmortem.waits.circle],
        "verdict": verdict(postmortem),
        "chains": [chain_text.as_json(chain, postmortem.at) for chain in postmortem.chains],
        "torch_dumps": dump_text.as_json(postmortem.dumps),
        "notes": notes(postmortem),
    }


def _rank_as_json(state: RankState) -> dict[str, Any]:
    return {
        "rank": state.ring.rank,
        "host": state.ring.host,
        "pid": state.ring.lifetime.pid,
        "state": state.state,
        "cause": state.cause,
        "exit": _exit_as_json(state.exit) if state.exit is not None else None,
        "step": state.step,
        "step_is_open": state.step_is_open,
        "step_was_open": state.step_was_open,
        "inside": state.inside,
        "collective": _as_json(state.collective) if state.collective is not None else None,
        "last_record_unix_nano": state.ring.wall(state.last),
        "heartbeat_unix_nano": state.ring.wall(state.ring.heartbeat) if state.ring.heartbeat else None,
        "ring": str(state.ring.path),
        "torn_records": state.ring.torn,
    }


def _exit_as_json(seen: Exit) -> dict[str, Any]:
    return {
        "status": seen.status,
        "reported_by": seen.reported_by,
        "reporting_pid": seen.parent,
        "at_unix_nano": seen.at_unix_nano,
        "oom_kills": seen.oom_kills,
    }


def _as_json(entered: EnteredCollective) -> dict[str, Any]:
    group = entered.collective.group
    return {
        "operation": entered.operation,
        "group": group.name,
        "group_description": group.description,
        "group_generation": group.generation,
        "number": entered.collective.number or None,
        "outcome": entered.outcome,
    }


def _row(postmortem: Postmortem, state: RankState) -> tuple[str, ...]:
    entered = state.collective
    step = "-" if state.step is None else f"{state.step}" if state.step_was_open else f"{state.step} (over)"
    seen = "; seen up to the copy of its ring" if state.is_old_copy else ""
    return (
        str(state.ring.rank) if state.ring.rank is not None else "-",
        state.ring.host,
        str(state.ring.lifetime.pid),
        step,
        " > ".join(state.inside) or "-",
        f"{_OUTCOMES[entered.outcome]} {entered.operation}" if entered is not None else "-",
        str(entered.collective.number or "-") if entered is not None else "-",
        f"{_seconds(postmortem, state.ring.wall(state.last))} s",
        f"{state.cause}{seen}",
    )


def _row_without_ring(postmortem: Postmortem, rank: int, what: str) -> tuple[str, ...]:
    dump = postmortem.dumps.of(rank)
    collective, number, ago = dump_text.last_of(dump, postmortem.at) if dump is not None else ("-", "-", "-")
    return str(rank), "-", "-", "-", "-", collective, number, ago if ago == "-" else f"{ago} s", what


def _seconds(postmortem: Postmortem, moment: int) -> str:
    return f"{max(postmortem.at - moment, 0) / 1e9:.1f}"


def waits(postmortem: Postmortem) -> list[str]:
    """Sentences that say who waits for whom."""
    by_collective: dict[tuple[int, EnteredCollective], list[str]] = {}
    for wait in postmortem.waits.waits:
        by_collective.setdefault((id(wait.waiting), wait.collective), []).append(str(wait.missing.ring.rank))
    waiting = {id(wait.waiting): wait.waiting for wait in postmortem.waits.waits}
    numberings = {collective.collective.numbering for _, collective in by_collective}
    lines = [
        f"{waiting[who].label} {_OUTCOMES[collective.outcome]} {collective.words}"
        f"{_counted(collective, numberings)}, which {dump_text.named_ranks(missing)} did not enter"
        for (who, collective), missing in by_collective.items()
    ]
    return [
        *_by(_RINGS, postmortem, _bounded(lines)),
        *_by(_DUMPS, postmortem, _bounded(dump_text.waits(postmortem.dumps))),
    ]


def _counted(entered: EnteredCollective, numberings: set[Numbering]) -> str:
    """Return who counts the collectives of its group, where another one says other numbers of them."""
    one = entered.collective.numbering
    if one._replace(is_of_torch=not one.is_of_torch) not in numberings:
        return ""
    return " as torch counts" if one.is_of_torch else " as Python counts"


def unknown(postmortem: Postmortem) -> list[str]:
    """Sentences that say of which collectives it is not known who has entered them."""
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for wait in postmortem.waits.unknown:
        key = wait.waiting.label, f"{_OUTCOMES[wait.collective.outcome]} {wait.collective.words}", wait.reason
        by_reason.setdefault(key, []).append(str(wait.other.ring.rank))
    lines = _bounded(
        [
            f"{who} {collective}; whether {dump_text.named_ranks(others)} entered it is not known: {reason}"
            for (who, collective, reason), others in by_reason.items()
        ]
        + [
            f"{rank.label} has {sum(rank.ring.unlisted)} more operations open (no collectives) than its ring has places"
            for rank in postmortem.ranks
            if any(rank.ring.unlisted)
        ]
    )
    return [*_by(_RINGS, postmortem, lines), *_by(_DUMPS, postmortem, _bounded(dump_text.unknown(postmortem.dumps)))]


def verdict(postmortem: Postmortem) -> list[str]:
    """Sentences that say where the waits end."""
    by_rings = _bounded(_verdict_of_rings(postmortem))
    if not postmortem.dumps.dumps:
        return by_rings or _without_waits(postmortem)
    by_dumps = _by(_DUMPS, postmortem, _bounded(dump_text.verdict(postmortem.dumps)))
    if by_rings:
        return [*_by(_RINGS, postmortem, by_rings), *(by_dumps or [f"{_DUMPS}: no rank is known to wait for another"])]
    # With NCCL only PyTorch sees who waits.
    return [
        *by_dumps,
        *_by(_RINGS, postmortem, _without_waits(postmortem) if postmortem.ranks else []),
    ] or _without_waits(postmortem)


def _verdict_of_rings(postmortem: Postmortem) -> list[str]:
    between = postmortem.waits
    sentences = [_of_origin(postmortem, state) for state in between.origins]
    if between.circle:
        names = [state.label for state in (*between.circle, between.circle[0])]
        sentences.append(f"deadlock: {' waits for '.join(names)}")
    sentences += [
        f"{found.first.label} issued {found.collective.words}, {found.second.label} issued {found.operation} under the"
        f" same number: {_BY_THREADS if found.is_by_threads else _BY_PATHS}"
        for found in between.mismatches
    ]
    return [
        *sentences,
        *(
            f"all ranks are in {collective.words}: it is slow, or the network is"
            for collective in between.entered_by_all
        ),
    ]


def _by(source: str, postmortem: Postmortem, lines: list[str]) -> list[str]:
    """Name the source where there are two."""
    return [f"{source}: {line}" for line in lines] if postmortem.dumps.dumps else lines


def _of_origin(postmortem: Postmortem, state: RankState) -> str:
    on_it = postmortem.waits.on(state)
    collective, (stands, order_of_ends) = on_it[0].collective, _stands(state, on_it)
    where = f" {'in' if state.step_was_open else 'after'} step {state.step}"
    if state.step is None:
        # A loop whose steps nobody marks has none.
        where = " before its first step" if any(rank.step is not None for rank in postmortem.ranks) else ""
    inside = f" ({' > '.join(state.inside)})" if state.inside else ""
    seconds = _seconds(postmortem, state.ring.wall(state.last))
    when = "ago" if postmortem.is_running else "before the last sign of the run"
    return (
        f"{state.label} {stands}{where}{inside} and did not enter {collective.words}; its last record was"
        f" {seconds} s {when}{_own_wait(state)}; {state.cause}{order_of_ends}"
    )


def _stands(state: RankState, on_it: Sequence[RankWait]) -> tuple[str, str]:
    """Return how a rank kept others waiting, and what is not known of it."""
    if state.state in _STANDS:
        return _STANDS[state.state], ""
    is_first = order.stopped_first(state, on_it)
    if is_first:
        return "stopped first", ""
    lived_on = is_first is False or order.lived_on(state, on_it)
    who = ", ".join(_bounded([wait.waiting.label for wait in on_it]))
    unknown_order = "" if is_first is False else f"; whether it ended before {who} is not known"
    if not lived_on:
        return "stopped", unknown_order
    return "was late" if order.worked_on(state, on_it) else "was stuck", unknown_order


def _own_wait(state: RankState) -> str:
    """Return that it waits in a collective itself, of whose other ranks nothing is known."""
    waiting = [collective for collective in state.unfinished if collective.outcome == "open"]
    return f"; it waits in {waiting[-1].words}, for whom is not known" if waiting else ""


def chains(postmortem: Postmortem) -> list[str]:
    """Sentences that say what ranks wait for beyond each other, and where that ends."""
    return _bounded([chain_text.sentence(chain, postmortem.at) for chain in postmortem.chains])


def knows_waits(postmortem: Postmortem) -> bool:
    """Return whether some rank is known to wait for another, or all of them for a collective."""
    return bool(_verdict_of_rings(postmortem) or dump_text.verdict(postmortem.dumps))


def _without_waits(postmortem: Postmortem) -> list[str]:
    """Name first what ended processes: that nobody waits for them explains nothing."""
    failed = sorted(
        (state for state in postmortem.ranks if state.has_failed), key=lambda state: state.ring.wall(state.last)
    )
    waiting = [_waits(state, state.waited) for state in postmortem.ranks if state.waited and state not in failed]
    return [*_bounded([_failure(state) for state in failed]), *_bounded(waiting), *standings(postmortem)]


def _waits(state: RankState, part: PartOfRun) -> str:
    how = "waits" if state.is_alive else "ended"
    return f"{state.label} {how}, {part.words}{'' if state.is_alive else f': {state.cause}'}"


def _failure(state: RankState) -> str:
    where = "during" if state.step_was_open else "after"
    part = f", {state.waited.words}" if state.waited is not None else ""
    return f"{state.label}{'' if state.step is None else f' {where} step {state.step}'}{part}: {state.cause}"


def standings(postmortem: Postmortem) -> list[str]:
    """Where ranks are that do not wait for each other; nothing of a single process, which has none to wait for."""
    if sum(state.ring.rank is not None for state in postmortem.ranks) + len(postmortem.missing) <= 1:
        return []
    known = [state for state in postmortem.ranks if not state.is_old_copy]
    sentences = ["no rank is known to wait for another"]
    by_step = [state for state in known if state.ring.rank is not None and state.step is not None]
    least = min((state.step or 0 for state in by_step), default=0)
    behind = [state for state in by_step if state.step == least]
    if len(behind) < len(by_step):
        sentences.append(f"the lowest step is {least}, of {', '.join(state.label for state in behind[:_SHOWN])}")
    return ["; ".join(sentences), *_behind(postmortem)]


def _behind(postmortem: Postmortem) -> list[str]:
    """Ranks that have entered fewer collectives of a group: with NCCL no rank shows that it waits."""
    # What an old copy lacks may have been entered since.
    known = [state for state in postmortem.ranks if not state.is_old_copy]
    numberings = {numbering for state in known for numbering in state.entered}
    lines = []
    for numbering in sorted(numberings, key=lambda key: (key.group.name, key.group.generation, key.is_of_torch)):
        group = numbering.group
        if group.is_one_of_many or len({state.failed_launches.get(group, 0) for state in postmortem.ranks}) > 1:
            # Their numbers cannot be compared.
            continue
        entered = {state.label: state.entered[numbering] for state in known if numbering in state.entered}
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
