"""Lists the runs of a folder without reading them: from summaries, manifests, and the ends of files.

    for row in list_runs(Path("./otel-rl"), newest=20):
        print(row.id, row.state)

What is read of a run has a bound, and nothing of it raises: a folder that is being deleted or copied, was written by
another version or cannot be read, is a row that says so.
"""

from __future__ import annotations

import os
import re
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import settings
from otel_rl.process import exit_records
from otel_rl.store.reader import run_rows, run_summaries
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.locate import FOR_REPLAY, SIGNAL_FILE, check_folder, nothing_in
from otel_rl.store.reader.process_folders import look_into, modified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.store.reader.process_folders import ProcessFolder
    from otel_rl.store.reader.run_rows import RunRow
    from otel_rl.store.reader.run_summaries import RunSummary

#: Most processes of a run whose folders are looked into.
_PROCESSES = 4096
#: So many folders are looked into to see whether they are the processes of one run.
_PROBED = 8
#: Name of a folder of a process, as the file store makes it.
_PROCESS_NAME = re.compile(r".+-(rank|pid)\d+-[0-9a-f]{8}")


def list_runs(folder: Path, newest: int | None = None) -> list[RunRow]:
    """Return the runs in ``folder``, that which began last first; at most ``newest`` of them.

    Of more runs than ``newest`` only as many are looked into as can be among them: the folder of a run is never older
    than the start of its last process.

    Raises:
        UnusableInput: it cannot be read, or holds no run.
    """
    check_folder(folder)
    seen = _NodeExits()
    if _is_run(folder):
        return _rows_of(folder, seen)[:newest]
    rows: list[RunRow] = []
    for changed, path in _newest_first(folder):
        if newest is not None and len(rows) >= newest:
            rows = sorted(rows, key=attrgetter("latest_start"), reverse=True)[:newest]
            if not rows or changed < rows[-1].latest_start:
                break
        rows += _rows_of(path, seen)
    if not rows and newest != 0:
        raise UnusableInput(nothing_in(folder))
    return sorted(rows, key=attrgetter("latest_start"), reverse=True)[:newest]


def _is_run(folder: Path) -> bool:
    """Return whether it is one run, one process, or the output of a collector, and not a folder of these."""
    entries = _entries(folder)
    if any(SIGNAL_FILE.fullmatch(entry.name) for entry in entries):
        return True
    folders = sorted((entry for entry in entries if _is_folder(entry)), key=lambda entry: not _is_named_so(entry))
    probed = (_process(Path(entry.path)) for entry in folders[:_PROBED])
    return any(process is not None and not isinstance(process, str) for process in probed)


def _newest_first(folder: Path) -> list[tuple[int, Path]]:
    """Return the folders in it with the time of their last change in ns, the latest first."""
    entries = (entry for entry in _entries(folder) if _is_folder(entry) and entry.name != FOR_REPLAY)
    return sorted(((modified(entry), Path(entry.path)) for entry in entries), reverse=True)


class _NodeExits:
    """How parents saw processes of this node end, read once for all runs."""

    def __init__(self) -> None:
        self._rings = Path(settings.current().ring_directory).expanduser()
        self._of_rings: dict[Lifetime, Exit] | None = None

    def of(self, folder: Path, files: list[Path]) -> dict[Lifetime, Exit]:
        """Return those in ``files``, which lie in ``folder``, and those beside the rings."""
        owners = {os.geteuid(), folder.stat().st_uid}
        if self._of_rings is None:
            self._of_rings = exit_records.read_all(self._rings.glob(exit_records.PATTERN), {os.geteuid()})
        return {**self._of_rings, **exit_records.read_all(files, owners)} if files else self._of_rings

    def has_one_since(self, run_id: str, moment: int) -> bool:
        """Return whether a process of this run ended later."""
        return any(end.run_id == run_id and end.at_unix_nano > moment for end in (self._of_rings or {}).values())


class _Listing(NamedTuple):
    """What lies in the folder of a run."""

    folders: list[os.DirEntry[str]]
    exits: list[Path]
    #: Files of a collector.
    signals: list[Path]
    changed: int


def _rows_of(path: Path, seen: _NodeExits) -> list[RunRow]:
    """Return the run in ``path``, the runs of a collector's output, or one that says why it cannot be read."""
    try:
        return list(_read(path, seen))
    except FileNotFoundError:
        return [run_rows.refused(path, "it was deleted or moved while it was read")]
    except PermissionError:
        return [run_rows.refused(path, "no permission to read it")]
    except OSError as error:
        return [run_rows.refused(path, f"it cannot be read ({error.strerror or type(error).__name__})")]


def _read(path: Path, seen: _NodeExits) -> Iterator[RunRow]:
    if (process := look_into(path)) is not None:
        yield run_rows.of_processes(path, [process], None, seen.of(path, []))
        return
    listing = _listing(path)
    summary = run_summaries.read(path)
    if summary is not None and _is_whole(summary, listing, seen):
        yield run_rows.of_summary(path, summary)
        return
    processes, remarks = _processes(listing.folders)
    if processes:
        yield run_rows.of_processes(path, processes, summary, seen.of(path, listing.exits), remarks)
        return
    outputs = [listing.signals, *(_signals(Path(entry.path)) for entry in listing.folders[:_PROBED])]
    of_outputs = [row for files in outputs if files for row in run_rows.of_output(files)]
    yield from of_outputs
    if not of_outputs and (remarks or summary is not None or any(map(_is_named_so, listing.folders))):
        empty = "it holds no records: it is being copied or deleted, or nothing has been written yet"
        yield run_rows.refused(path, "; ".join(remarks) or empty)


def _listing(path: Path) -> _Listing:
    entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    folders = [entry for entry in entries if _is_folder(entry)]
    exits = [entry for entry in entries if entry.name.endswith(exit_records.SUFFIX)]
    signals = [Path(entry.path) for entry in entries if SIGNAL_FILE.fullmatch(entry.name)]
    changed = max(map(modified, (*folders, *exits)), default=0)
    return _Listing(folders, [Path(entry.path) for entry in exits], signals, changed)


def _signals(path: Path) -> list[Path]:
    """Return the files of a collector in a folder; none where it cannot be read."""
    try:
        return _listing(path).signals
    except OSError:
        return []


def _is_whole(summary: RunSummary, listing: _Listing, seen: _NodeExits) -> bool:
    """Return whether nothing has happened since the summary: all had ended, and nothing has been written."""
    number = sum(map(_is_named_so, listing.folders))
    run_id = str(summary.part("run").get("id") or "")
    is_latest = listing.changed <= summary.written and not seen.has_one_since(run_id, summary.written)
    return summary.is_final and summary.processes == number and is_latest


def _processes(entries: list[os.DirEntry[str]]) -> tuple[list[ProcessFolder], list[str]]:
    """Return the processes in these folders, and what could not be read of them, in words."""
    found = [_process(Path(entry.path)) for entry in entries[:_PROCESSES]]
    refused = [words for words in found if isinstance(words, str)]
    if len(entries) > _PROCESSES:
        refused.append(f"{_PROCESSES} of {len(entries)} folders were looked into")
    return [process for process in found if process is not None and not isinstance(process, str)], refused


def _process(path: Path) -> ProcessFolder | str | None:
    """Return the process in this folder, None where it is none, or why that cannot be seen."""
    try:
        return look_into(path)
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror or type(error).__name__})"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _is_named_so(entry: os.DirEntry[str]) -> bool:
    """Return whether a folder has the name of a process."""
    return _PROCESS_NAME.fullmatch(entry.name) is not None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
