"""The rings of one run: copies in its folder, and the rings that lie in memory of this node."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout, waiting
from otel_rl.flight_recorder.copies import COPY, WAITING_COPY
from otel_rl.flight_recorder.files import LISTS_SUFFIX, PATTERN, prefix
from otel_rl.flight_recorder.reader import RingSnapshot, UnreadableRing, header_text, read, read_header
from otel_rl.process import exit_records, launch
from otel_rl.store.reader import locate
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.store.reader.processes import Process

_ANY = f"*{layout.SUFFIX}"
#: So many ends are listed for a run without rings, and so many places of PyTorch's dumps are looked at.
_SHOWN = 8


@dataclass
class RunRings:
    """The rings of one run, one per process, and what its folder says of its processes."""

    run_id: str
    rings: list[RingSnapshot]
    processes: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: How parents saw processes end.
    exits: dict[Lifetime, Exit] = field(default_factory=dict)
    #: Calls that have been open for long, by process.
    waiting: list[WaitingCalls] = field(default_factory=list)
    #: Rings of earlier attempts.
    earlier: list[RingSnapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set the rings of earlier attempts apart."""
        newest = max((launch.parse_attempt(ring.attempt) for ring in self.rings), default=())
        self.earlier = [ring for ring in self.rings if launch.parse_attempt(ring.attempt) != newest]
        self.rings = [ring for ring in self.rings if launch.parse_attempt(ring.attempt) == newest]
        if self.earlier:
            self.notes.append(f"{len(self.earlier)} processes of earlier attempts are left out")

    @property
    def torch_dumps(self) -> list[str]:
        """Prefixes of files to which PyTorch was to write its own dumps."""
        prefixes = ((process.manifest or {}).get("torch_dumps") for process in self.processes)
        return sorted({prefix for prefix in prefixes if isinstance(prefix, str) and prefix})[:_SHOWN]

    @property
    def began(self) -> int:
        """Wall clock (ns) of the begin of the first process; 0: not known."""
        begun = [process.number("started_unix_nano") for process in self.processes]
        return min((moment for moment in begun if moment), default=0)


def find_rings(directory: Path, ring_directory: Path, run: str | None) -> RunRings:
    """Find the run in ``directory`` (a data directory, a run, or a folder of rings) and read its rings.

    Raises:
        UnusableInput: there is none.
    """
    if directory.is_dir() and any(directory.glob(PATTERN)):
        return _among(directory, run)
    source = _source(directory, ring_directory, run)
    run_id = source.run_id or source.path.name
    notes: list[str] = []
    copies = _read([*source.path.glob(COPY), *source.path.glob(f"*/{COPY}")], notes)
    # One whose header cannot be read belongs to this run if its name says so.
    unreadable: list[str] = []
    # Anybody may put a file there that says it is of this run.
    owners = {os.geteuid(), source.path.stat().st_uid}
    headers = _read(ring_directory.glob(PATTERN), unreadable, owners, read_header)
    of_run = [ring.path for ring in headers if ring.run_id == header_text(run_id)]
    rings = _one_per_process([*copies, *_read(of_run, unreadable, owners)])
    notes += [note for note in unreadable if prefix(run_id) in note]
    exits = exits_of(source.path, ring_directory)
    waits = _of_newest(waiting_calls(source.path, ring_directory, run_id), source.processes, rings)
    if not rings and any(one.calls for one in waits):
        # Rollouts without steps: of their processes it is known in which calls they are.
        return RunRings(run_id, [], source.processes, notes, exits, waits)
    if not rings:
        raise UnusableInput(_nothing(run_id, source.path, ring_directory, notes, _failures(exits, run_id)))
    run_rings = RunRings(run_id, rings, source.processes, notes, exits, waits)
    if source.others:
        run_rings.notes.append(f"newest of {len(source.others) + 1} runs; others: {', '.join(source.others[:5])}")
    return run_rings


def _source(directory: Path, ring_directory: Path, run: str | None) -> locate.RunSource:
    try:
        return locate.find_run(directory, run)
    except UnusableInput as error:
        number = len(list(ring_directory.glob(PATTERN)))
        if not number:
            raise
        # A run that is sent to a collector has no folder.
        raise UnusableInput(f"{error}; but {ring_directory} holds {number} rings: give it as DIR") from None


def missing(run_rings: RunRings) -> dict[int, str]:
    """Ranks of the run without a ring, and what is known of them."""
    world_size = max((ring.world_size or 0 for ring in run_rings.rings), default=0)
    without = set(range(world_size)) - {ring.rank for ring in run_rings.rings}
    known = {process.rank: process for process in run_rings.processes if process.rank is not None}
    exits = {ended.rank: ended for ended in _in_order(run_rings.exits, run_rings.run_id)}
    return {rank: _known(known.get(rank), exits.get(rank)) for rank in sorted(without)}


def _known(process: Process | None, seen: Exit | None) -> str:
    if seen is not None:
        return f"no ring; {seen.words}"
    if process is None:
        return "no ring and no files"
    return "no ring; ended in order" if process.clean_exit else "no ring; no orderly end"


def _in_order(exits: dict[Lifetime, Exit], run_id: str) -> list[Exit]:
    return sorted((ended for ended in exits.values() if ended.run_id == run_id), key=lambda ended: ended.at_unix_nano)


def _failures(exits: dict[Lifetime, Exit], run_id: str) -> list[str]:
    """Return how the processes of a run without rings ended, by their parents, the first end first."""
    failed = [ended for ended in _in_order(exits, run_id) if ended.status != 0]
    return [
        f"{f'process {ended.lifetime.pid}' if ended.rank is None else f'rank {ended.rank}'} {ended.words}"
        for ended in failed[:_SHOWN]
    ]


def _nothing(run_id: str, folder: Path, ring_directory: Path, notes: list[str], failures: list[str]) -> str:
    looked = f"run {run_id} has no ring in {folder} nor in {ring_directory}"
    why = "; ".join(notes) or (
        "it ran with OTEL_RL_RING=off, it began no step and no collective, or its rings lie on another node or in"
        " another directory (--ring-dir)"
    )
    return "; ".join([f"{looked}: {why}", *failures])


def _among(directory: Path, run: str | None) -> RunRings:
    """Choose one run of a folder that holds nothing but rings."""
    notes: list[str] = []
    headers = _read(directory.glob(_ANY), notes, None, read_header)
    wanted = [ring for ring in headers if run is None or ring.run_id.startswith(header_text(run))]
    if not wanted:
        raise UnusableInput("; ".join(notes) or f"{directory} holds no ring of run {run}")
    # Rings without a run id may be of several runs: only where there are no others.
    newest = max(wanted, key=lambda ring: (bool(ring.run_id), ring.last_sign)).run_id
    rings = _one_per_process(_read((ring.path for ring in wanted if ring.run_id == newest), notes))
    if not rings:
        raise UnusableInput("; ".join(notes))
    without = sum(not ring.run_id for ring in wanted)
    if without:
        notes.append(f"{without} rings have no run id{'' if newest else ' and may be of several runs'}")
    exits = exit_records.read_all(directory.glob(exit_records.PATTERN), {os.geteuid(), directory.stat().st_uid})
    waits = _of_newest(waiting_calls(directory, directory, newest), [], rings)
    return RunRings(newest or "without an id", rings, notes=notes, exits=exits, waiting=waits)


def exits_of(folder: Path, ring_directory: Path) -> dict[Lifetime, Exit]:
    """Return how parents saw processes end, of the run in ``folder`` and of others on this node."""
    owners = {os.geteuid()}
    with suppress(FileNotFoundError):  # deleted while its run is followed
        owners.add(folder.stat().st_uid)
    paths = [*folder.glob(exit_records.PATTERN), *ring_directory.glob(exit_records.PATTERN)]
    return exit_records.read_all(paths, owners)


def waiting_calls(folder: Path, ring_directory: Path, run_id: str) -> list[WaitingCalls]:
    """Return the calls of ``run_id`` that have been open for long: the lists of this node, and copies of others."""
    owners = {os.geteuid()}
    with suppress(FileNotFoundError):
        owners.add(folder.stat().st_uid)
    lists = ring_directory.glob(f"{prefix(run_id)}*{LISTS_SUFFIX}") if run_id else ()
    paths = [*folder.glob(f"*/{WAITING_COPY}"), *lists]
    return [found for found in waiting.read_all(paths, owners) if found.run_id == header_text(run_id)]


def _of_newest(lists: list[WaitingCalls], processes: list[Process], rings: list[RingSnapshot]) -> list[WaitingCalls]:
    """Leave out lists of processes that are known to be of an earlier attempt: nobody waits for them any more."""
    attempts = {process.lifetime: process.attempt[:2] for process in processes if process.lifetime is not None}
    attempts |= {ring.lifetime: launch.parse_attempt(ring.attempt)[:2] for ring in rings}
    newest = max(attempts.values(), default=())
    return [one for one in lists if attempts.get(one.lifetime) in (newest, (), None)]


def _read(
    paths: Iterable[Path],
    notes: list[str],
    owners: Collection[int] | None = None,
    how: Callable[[Path, Collection[int] | None], RingSnapshot] = read,
) -> list[RingSnapshot]:
    rings = (_read_one(path, notes, owners, how) for path in sorted(paths))
    return [ring for ring in rings if ring is not None]


def _read_one(
    path: Path, notes: list[str], owners: Collection[int] | None, how: Callable[..., RingSnapshot]
) -> RingSnapshot | None:
    try:
        return how(path, owners)
    except UnreadableRing as reason:
        notes.append(str(reason))
        return None


def _one_per_process(rings: Iterable[RingSnapshot]) -> list[RingSnapshot]:
    """Of a ring and its copies, the one that was written last; ``rings`` has the copies first."""
    newest: dict[tuple[object, ...], RingSnapshot] = {}
    for ring in rings:
        key = ring.host, ring.lifetime
        if key not in newest or ring.last_sign >= newest[key].last_sign:
            newest[key] = ring
    return list(newest.values())
