"""Postmortem of a run, also while it hangs: where each rank is, who waits for whom, and at whom that ends.

    result = examine(Path("./otel-rl/run"), Path("/dev/shm"))
    print(as_text(result))

Modules, each importing only those below it:
    text: the table and the sentences for a person, and JSON for a program.
    dump_text: the same of PyTorch's dumps.
    dump_comparison: PyTorch's dumps beside each other: who did not enter, and what does not fit.
    dumps: what PyTorch's dump tells of its rank.
    dump_files: the files of PyTorch's flight recorder, read without trust in who wrote them.
    chain_text: a chain of waits as a sentence, and as JSON.
    chains: what a rank waits for beyond other ranks: a rollout, its tool, a server.
    order: which of two processes ended first, where that is shown.
    waits: who waits for whom, by group and number of the collective.
    ranks: one process: step, phase, collective, how it ended.
    rings: the rings of a run, in its folder and in memory of this node.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.process import lifetime
from otel_rl.ranks.postmortem import chains, dump_comparison, dump_files, dumps, ranks, rings, waits
from otel_rl.ranks.postmortem.dump_comparison import DumpComparison
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.ranks.postmortem.chains import WaitChain
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.ranks.postmortem.waits import RankWait, Waits


class HeldUp(NamedTuple):
    """Ranks that wait for calls, and the waits for them in collectives that they have not entered."""

    ranks: list[RankState]
    waits: list[RankWait]

    @property
    def numbers(self) -> set[int | None]:
        """All these ranks: those of the calls, and those that wait for them."""
        return {state.ring.rank for state in (*self.ranks, *(wait.waiting for wait in self.waits))}


@dataclass
class Postmortem:
    """The state of all ranks, and who waits for whom."""

    run_id: str
    #: Wall clock (ns) that "seconds ago" refers to: now while a process runs, else the last sign of any.
    at: int
    is_running: bool
    ranks: list[RankState]
    waits: Waits
    #: Ranks without a ring, and what is known of them.
    missing: dict[int, str]
    notes: list[str]
    #: What PyTorch's dumps say; with NCCL they are the only evidence of who waits.
    dumps: DumpComparison = field(default_factory=DumpComparison)
    #: What ranks wait for beyond each other, and what other processes do.
    chains: list[WaitChain] = field(default_factory=list)
    #: Calls that had been open for long, by process.
    waiting: list[WaitingCalls] = field(default_factory=list)
    #: Processes of earlier attempts, as their rings have them.
    earlier: list[RankState] = field(default_factory=list)

    def held_up_by(self, name: str) -> HeldUp:
        """Return the ranks that wait for hanging calls of ``name``, and who waits for these ranks."""
        ranks = [
            chain.rank
            for chain in self.chains
            if chain.rank is not None
            and not chain.is_meanwhile
            and any(link.call.hangs and link.call.name == name for link in chain.links)
        ]
        return HeldUp(ranks, self.waits.behind(ranks))


def examine(
    directory: Path, ring_directory: Path, run: str | None = None, torch_dumps: Path | None = None
) -> Postmortem:
    """Read the rings of the run in ``directory``, its newest one unless ``run`` says which, and PyTorch's dumps.

    The dumps lie at ``torch_dumps``, a folder or the prefix that PyTorch was given; else where the run says that
    PyTorch was to write them.

    Raises:
        UnusableInput: nothing was found, with the reason.
    """
    run_rings, without = _rings(directory, ring_directory, run, torch_dumps)
    states = sorted((ranks.state_of(ring, run_rings.exits) for ring in run_rings.rings), key=lambda state: state.order)
    compared = _dumps(run_rings, states, directory, torch_dumps)
    if without is not None and not compared.dumps:
        raise UnusableInput("; ".join([str(without), *compared.notes]))
    is_running = any(state.is_alive for state in states) or any(map(_is_alive, run_rings.waiting))
    last_signs = [state.ring.last_sign for state in states] or [_last_sign(dump) for dump in compared.dumps]
    last_signs += [calls.seen for calls in run_rings.waiting]
    lists = run_rings.waiting
    if is_running:
        # Nobody waits for a process that is gone.
        lists = [calls for calls in lists if not _fate(calls, run_rings)]
    found = chains.find_chains(states, lists)
    for chain in found:
        chain.fate = _fate(chain.end.process, run_rings)
    between = waits.find_waits(states)
    return Postmortem(
        run_id=run_rings.run_id,
        at=time.time_ns() if is_running else max(last_signs),
        is_running=is_running,
        ranks=states,
        waits=between,
        missing=_missing(run_rings, compared),
        notes=run_rings.notes,
        dumps=compared,
        chains=found,
        waiting=run_rings.waiting,
        earlier=[ranks.state_of(ring, run_rings.exits) for ring in run_rings.earlier],
    )


def _rings(
    directory: Path, ring_directory: Path, run: str | None, torch_dumps: Path | None
) -> tuple[rings.RunRings, UnusableInput | None]:
    """Return the rings, or why there are none."""
    try:
        return rings.find_rings(directory, ring_directory, run), None
    except UnusableInput as error:
        if torch_dumps is None:
            raise
        return rings.RunRings("without rings", [], notes=[f"no rings: {error}"]), error


def _dumps(
    run_rings: rings.RunRings, states: list[RankState], directory: Path, torch_dumps: Path | None
) -> DumpComparison:
    notes: list[str] = []
    if torch_dumps is not None:
        files = dump_files.find_dumps(torch_dumps, notes)
        if not files and not notes:
            notes.append(f"no dump of PyTorch's flight recorder at {dump_files.printable(torch_dumps)}")
    else:
        # The prefix may be one that earlier runs had too, and lie where anybody may write.
        owners = {os.geteuid(), directory.stat().st_uid}
        every = [file for place in run_rings.torch_dumps for file in dump_files.find_dumps(Path(place), notes, owners)]
        files = [file for file in every if file.written >= run_rings.began]
        if len(files) < len(every):
            notes.append(f"{len(every) - len(files)} dumps of PyTorch's flight recorder are older than the run")
    groups = {numbering.group for state in states for numbering in state.entered}
    return dump_comparison.compare(dumps.read(files, notes, groups), notes)


def _is_alive(calls: WaitingCalls) -> bool:
    return bool(lifetime.is_alive(calls.lifetime))


def _fate(calls: WaitingCalls, run_rings: rings.RunRings) -> str:
    """Return how the process of ``calls`` ended; empty where it runs or that cannot be seen."""
    seen = run_rings.exits.get(calls.lifetime)
    if seen is not None:
        return f"{calls.label} {'was ' if seen.status < 0 else ''}{seen.words}"
    return f"{calls.label} is gone" if lifetime.is_alive(calls.lifetime) is False else ""


def _last_sign(dump: dumps.Dump) -> int:
    return max((entry.completed or entry.created or 0 for entry in dump.entries), default=dump.written)


def _missing(run_rings: rings.RunRings, compared: DumpComparison) -> dict[int, str]:
    """Ranks without a ring: those that the rings, or the groups of the dumps, name."""
    missing = rings.missing(run_rings)
    with_ring = {ring.rank for ring in run_rings.rings}
    for rank in compared.ranks - with_ring:
        missing.setdefault(rank, "no ring")
    return {
        rank: f"{missing[rank]}; {'a dump of PyTorch' if compared.of(rank) is not None else 'no dump of PyTorch'}"
        if compared.dumps
        else missing[rank]
        for rank in sorted(missing)
    }
