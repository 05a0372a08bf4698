"""Files of rings: their names, and the removal of those that killed processes have left.

A process that ends in order removes its ring. The ring of one that was killed stays for a postmortem, and would stay
until the node boots. So the first process of a node that makes a ring removes old ones.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.core.guard import remove_file
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import RingSnapshot, UnreadableRing, read_header
from otel_rl.process import exit_records, lifetime

if TYPE_CHECKING:
    from collections.abc import Iterable

EXITS = f"otel-rl-*{exit_records.SUFFIX}"
PATTERN = f"otel-rl-*{layout.SUFFIX}"
#: Lists of calls that have been open for long (:mod:`.waiting`).
LISTS_SUFFIX = ".waits"
LISTS = f"otel-rl-*{LISTS_SUFFIX}"
#: Seconds after its last heartbeat for which the ring of a dead process is kept in any case.
KEPT = 3600.0
#: Seconds after its last heartbeat from which on the ring of a dead process is removed.
OLD = 7 * 86400.0
#: So many rings of dead processes stay (35 MiB); of more the oldest go.
MOST = 64
#: So many rings are looked at, which takes a tenth of a millisecond each.
_MOST_READ = 256
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
#: Longest part of a file's name that comes from the run id.
_RUN_ID_LENGTH = 100


def prefix(run_id: str | None) -> str:
    """Return how the names of a run's rings begin; runs whose ids begin alike may share it."""
    return f"otel-rl-{_safe((run_id or 'unknown-run')[:_RUN_ID_LENGTH])}-"


def name(run_id: str | None, host: str, rank: int | None) -> str:
    """Return the name of this process's ring, without its suffix."""
    process = f"rank{rank}" if rank is not None else f"pid{os.getpid()}"
    return f"{prefix(run_id)}{_safe(host)}-{_safe(process)}-{os.getpid()}"


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)


def remove_old(directory: Path, run_id: str) -> list[Path]:
    """Remove rings of our user in ``directory`` whose processes are dead for sure, and return them.

    Those go whose last sign is older than :data:`OLD`, and the oldest beyond :data:`MOST`. A run that is ``run_id``, or
    one of whose processes may run, keeps all of its rings.
    """
    rings = list(_headers(directory))
    alive = {ring.path: ring.is_alive() for ring in rings}
    # A process of another pid namespace or boot cannot be judged: its run may go on.
    running = {ring.run_id for ring in rings if alive[ring.path] is not False} | {run_id}
    dead = [ring for ring in rings if ring.run_id not in running]
    dead.sort(key=lambda ring: ring.last_sign, reverse=True)
    removed = [ring.path for place, ring in enumerate(dead) if _age(ring) > (OLD if place < MOST else KEPT)]
    removed += [*_old_files(directory, EXITS), *_old_lists(directory)]
    return _remove(removed)


def remove_old_lists(directory: Path) -> list[Path]:
    """Remove lists of calls as :func:`remove_old` does, for processes that make no ring, and return them."""
    return _remove(_old_lists(directory))


def _remove(paths: Iterable[Path]) -> list[Path]:
    removed = [*paths]
    for path in removed:
        with suppress(OSError):
            remove_file(path)
    return removed


def remove_own(paths: Iterable[Path]) -> None:
    """Remove the rings among ``paths`` that this process has written: an exec has ended the program that did."""
    own = lifetime.own()
    for path in paths:
        with suppress(UnreadableRing, OSError):
            if read_header(path, {os.geteuid()}).lifetime == own:
                remove_file(path)


def _old_files(directory: Path, pattern: str) -> Iterable[Path]:
    """Return old files of our user: how processes ended, as their parents saw it, or which calls they had open."""
    for path in directory.glob(pattern):
        with suppress(OSError):
            what = path.lstat()
            if what.st_uid == os.geteuid() and time.time() - what.st_mtime > OLD:
                yield path


def _old_lists(directory: Path) -> list[Path]:
    """Return lists of calls that are old, and the oldest beyond :data:`MOST`: one of a process that runs is young."""
    mine: list[tuple[float, Path]] = []
    now = time.time()
    for path in directory.glob(LISTS):
        with suppress(OSError):
            what = path.lstat()
            if what.st_uid == os.geteuid():
                mine.append((now - what.st_mtime, path))
    mine.sort()
    over = [path for place, (age, path) in enumerate(mine) if age > (OLD if place < MOST else KEPT)]
    return [path for path in over if not _may_run(path)]


def _may_run(path: Path) -> bool:
    """Return whether the process that its list's name ends with is there."""
    pid = path.name.removesuffix(LISTS_SUFFIX).rpartition("-")[2]
    return pid.isdecimal() and Path(f"/proc/{pid}").exists()


def _headers(directory: Path) -> Iterable[RingSnapshot]:
    for number, path in enumerate(directory.glob(PATTERN)):
        if number >= _MOST_READ:
            return
        with suppress(UnreadableRing):
            yield read_header(path, {os.geteuid()})


def _age(ring: RingSnapshot) -> float:
    return time.time() - ring.last_sign / 1e9
