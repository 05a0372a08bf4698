"""Finds what a folder holds: runs of the file store, one run, one process, or the output of collectors."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.store.reader.compressed import former, is_compressed, present
from otel_rl.store.reader.copies import find_copies
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.lines import run_ids, size
from otel_rl.store.reader.processes import MANIFEST, Process, bring_up_to_date, from_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNAL_FILE = re.compile(r"(traces|metrics|logs)(([-_.].*)?\.jsonl?|(-[a-z]+)?-\d+\.jsonl\.gz)")
STORE_FILE = re.compile(r"(?P<stream>(traces|metrics|logs)(-[a-z]+)?)-(?P<number>\d+)\.jsonl(\.gz)?")
_NAMES_SHOWN = 5
FOR_REPLAY = "collector-replay"
"""The folder that `otel-rl collector run --with replay` reads: what that has sent may be in other files as well."""

EXPECTED = (
    "expected a folder written by otel-rl (default ./otel-rl), one run in it, "
    "or a collector's traces.jsonl, metrics.jsonl, logs.jsonl. A program has no folder before it imports PyTorch, a "
    "trainer or a model client; one that recorded nothing leaves none, and its last line says why. "
    "Record one with: opentelemetry-instrument python train.py; "
    "`otel-rl doctor -- python train.py` says what will be recorded"
)


@dataclass(slots=True)
class SignalFile:
    """One file of OTLP JSON lines; ``process`` is known in the file store, not in a collector's output."""

    path: Path
    signal: str
    process: Process | None = None


@dataclass(slots=True)
class RunSource:
    """One run that can be read, and the names of the other runs beside it (newest first)."""

    path: Path
    run_id: str | None
    files: list[SignalFile]
    processes: list[Process] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    #: True where the files hold records of other runs too.
    is_mixed: bool = False
    #: What beside the files is not read, and why, in words.
    remarks: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes in all files; what cannot be looked at counts as 0."""
        return sum(size(file.path) for file in self.files)


def find_run(path: Path, run: str | None = None) -> RunSource:
    """Find the run to read below ``path``: the one named ``run`` (a unique beginning will do), else the newest.

    Raises:
        UnusableInput: nothing readable there, or no such run.
    """
    check_folder(path)
    source, for_replay = _run_in(path, run), path / FOR_REPLAY
    if source is None and _signal_files(for_replay):
        return find_run(for_replay, run)
    if source is None:
        raise UnusableInput(nothing_in(path))
    if _signal_files(for_replay):
        source.remarks.append(f"{for_replay} is for replay and not read; to read it, give it as the folder")
    return source


def _run_in(path: Path, run: str | None) -> RunSource | None:
    if _is_output(path):
        return _collector_output(path, _outputs(path), run)
    if _is_process(path):
        return _store_run(path, [path], run)
    children = _folders(path)
    processes = [child for child in children if _is_process(child)]
    if processes:
        return _store_run(path, processes, run)
    runs = [child for child in children if any(_is_process(folder) for folder in _folders(child))]
    if runs:
        return _newest_run(path, runs, run)
    outputs = _outputs(path)
    return _collector_output(path, outputs, run) if outputs else None


def check_folder(path: Path) -> None:
    """Refuse what is no folder that can be read.

    Raises:
        UnusableInput: it is none.
    """
    if not path.exists():
        raise UnusableInput(f"{path}: no such folder; {EXPECTED}")
    if not path.is_dir():
        raise UnusableInput(f"{path} is a file; give the folder it lies in")
    if not os.access(path, os.R_OK | os.X_OK):
        raise UnusableInput(f"{path}: no permission to read it; ask its owner or copy it as that user")


def nothing_in(path: Path) -> str:
    """Return what is said of a folder without telemetry."""
    if not any(path.iterdir()):
        return f"{path} is empty; {EXPECTED}"
    if (data := path / "otel-rl").is_dir():
        return f"{path} holds no telemetry of its own; give the folder in it: {data}"
    return f"{path} holds no telemetry; {EXPECTED}"


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if child.is_dir() and child.name != FOR_REPLAY)
    except OSError:
        return []


def _signal_files(path: Path) -> list[SignalFile]:
    files: dict[Path, SignalFile] = {}
    for child in sorted(path.iterdir() if os.access(path, os.R_OK | os.X_OK) else (), key=rotation_order):
        match = SIGNAL_FILE.fullmatch(child.name)
        # Beside a compressed file the file itself may lie for a moment; it comes first.
        if match and former(child) not in files:
            # It may have been compressed since the folder was listed.
            now = child if child.is_file() else present(child)
            if now is child or now.is_file():
                files[former(child)] = SignalFile(now, match[1])
    return list(files.values())


def written_together(files: list[SignalFile]) -> Iterator[list[list[SignalFile]]]:
    """Return the streams of each process and signal, or of each signal of collectors: files in order."""
    for _, group in groupby(files, key=lambda file: (id(file.process), file.signal)):
        streams: dict[tuple[Path, str], list[SignalFile]] = {}
        for file in group:
            streams.setdefault(stream_of(file), []).append(file)
        yield list(streams.values())


def stream_of(file: SignalFile) -> tuple[Path, str]:
    """Return what the files of one stream share: their folder, and their name where the file store has several."""
    match = STORE_FILE.fullmatch(file.path.name)
    return file.path.parent, match["stream"] if match is not None else ""


def look_again(source: RunSource) -> None:
    """Add processes and files that have come since, and bring up to date what processes say of themselves.

    Of collectors' output only the folders that were found are looked at. Files that are gone stay listed.
    """
    if not source.processes:
        known = {former(file.path): file for file in source.files}
        for folder in dict.fromkeys(path.parent for path in known):
            source.files += _new_of(_signal_files(folder), known)
        return
    known_processes = {process.key: process for process in source.processes}
    folders = [source.path] if _is_process(source.path) else _folders(source.path)
    for folder in folders:
        process = known_processes.get(folder.name)
        if process is None:
            if _is_process(folder):
                _add_or_rename(source, from_folder(folder), folder)
        elif _has_changed(process, folder):
            bring_up_to_date(process, folder)
            known = {former(file.path): file for file in source.files if file.process is process}
            _add_files(source, process, _new_of(_signal_files(folder), known))


def _add_or_rename(source: RunSource, found: Process, folder: Path) -> None:
    """Add the process of a folder, unless it is a known one that has learnt its rank, and so was renamed."""
    for known in source.processes if found.lifetime is not None else ():
        if known.lifetime == found.lifetime and not (source.path / known.key).exists():
            known.key, known.manifest = found.key, found.manifest
            _add_files(source, known, _signal_files(folder))
            return
    _add_process(source, found, folder)


def _new_of(found: list[SignalFile], known: dict[Path, SignalFile]) -> list[SignalFile]:
    """Return the files that are new; one that has been compressed meanwhile is none, and gets its new name."""
    for file in found:
        if (same := known.get(former(file.path))) is not None:
            same.path = file.path
    return [file for file in found if former(file.path) not in known]


def _has_changed(process: Process, folder: Path) -> bool:
    """Return whether files came or were replaced, or an exit status is awaited, which is written into an empty file."""
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return False
    was, process.folder_changed = process.folder_changed, changed
    return changed != was or (process.was_ending and process.exit_status is None)


def _add_process(source: RunSource, process: Process, folder: Path) -> None:
    source.processes.append(process)
    _add_files(source, process, _signal_files(folder))


def _add_files(source: RunSource, process: Process, files: list[SignalFile]) -> None:
    for file in files:
        file.process = process
        source.files.append(file)


def rotation_order(path: Path) -> tuple[bool, str, int, bool]:
    """Return what sorts files into the order in which they were written, a compressed one behind the file itself."""
    if match := STORE_FILE.fullmatch(path.name):
        return False, match["stream"], int(match["number"]), is_compressed(path)
    # A rotating writer moves the old file to a longer name and goes on in the short one: that is the newest.
    return ("-" not in path.name and "_" not in path.name, path.name, 0, False)


def _is_process(path: Path) -> bool:
    try:
        return any(child.name == MANIFEST or STORE_FILE.fullmatch(child.name) for child in path.iterdir())
    except OSError:
        return False


def _is_output(path: Path) -> bool:
    return bool(_signal_files(path)) and not _is_process(path)


def _outputs(path: Path) -> list[Path]:
    """Return the folders with a collector's files: this one, those in it, and those in these, as in ``./otel-rl``."""
    children = _folders(path)
    found = filter(_is_output, [path, *children, *chain.from_iterable(map(_folders, children))])
    return list({folder.resolve(): folder for folder in found}.values())  # a link to one is no other


def _store_run(path: Path, folders: list[Path], run: str | None) -> RunSource:
    source = RunSource(path, run_id=None, files=[])
    for folder in folders:
        _add_process(source, from_folder(folder), folder)
    source.run_id = next(
        (run_id for p in source.processes if isinstance(run_id := (p.manifest or {}).get("run_id"), str) and run_id),
        None,
    )
    if run is not None and not str(source.run_id or path.name).startswith(run):
        raise UnusableInput(f"{path} holds run {source.run_id or path.name}, not {run}")
    return source


def _newest_run(path: Path, runs: list[Path], wanted: str | None) -> RunSource:
    newest_first = sorted(runs, key=_started, reverse=True)
    chosen = newest_first[0].name if wanted is None else _choose(wanted, [run.name for run in newest_first], path)
    folder = path / chosen
    source = _store_run(folder, [child for child in _folders(folder) if _is_process(child)], None)
    source.others = [run.name for run in newest_first if run.name != chosen]
    return source


def _choose(wanted: str, names: list[str], path: Path) -> str:
    matches = [name for name in names if name == wanted] or [name for name in names if name.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    if matches:
        raise UnusableInput(f"{path}: {len(matches)} runs begin with {wanted}; give more of the name ({shown})")
    raise UnusableInput(f"{path} holds no run {wanted}; it holds: {shown or 'no run that has a name'}")


def _started(run: Path) -> float:
    started = [start / 1e9 for folder in _folders(run) if (start := from_folder(folder).number("started_unix_nano"))]
    return max(started, default=0.0) or run.stat().st_mtime


def _collector_output(path: Path, folders: list[Path], wanted: str | None) -> RunSource:
    """Return the run with its files in all of these folders: a collector that was started again has another folder."""
    every = {folder: _signal_files(folder) for folder in folders}
    copies = find_copies(file.path for files in every.values() for file in files)
    files = {folder: [file for file in every[folder] if file.path not in copies] for folder in folders}
    in_order = sorted(filter(files.get, files), key=lambda folder: _written(folder, files[folder]))
    found = {folder: run_ids([file.path for file in files[folder]]) for folder in in_order}
    newest_first = list(dict.fromkeys(run for folder in reversed(in_order) for run in found[folder]))
    chosen = newest_first[0] if newest_first else None
    if wanted is not None:
        chosen = _choose(wanted, newest_first, path)
    where = [folder for folder, runs in found.items() if chosen is None or chosen in runs]
    return RunSource(
        Path(os.path.commonpath(where)),
        chosen,
        sorted((file for folder in where for file in files[folder]), key=lambda file: file.signal),
        others=[run for run in newest_first if run != chosen],
        is_mixed=any(run != chosen for folder in where for run in found[folder]),
        remarks=_of_copies({copy: original for copy, original in copies.items() if original.parent in where}),
    )


def _of_copies(copies: dict[Path, Path]) -> list[str]:
    if not copies:
        return []
    copy, original = next(iter(copies.items()))
    number = "1 file is a copy" if len(copies) == 1 else f"{len(copies)} files are copies"
    return [f"{number} and not read again: {copy} of {original}{', ...' if len(copies) > 1 else ''}"]


def _written(output: Path, files: list[SignalFile]) -> tuple[float, str]:
    """Return when a job wrote last into a collector's folder; the name decides between equal times.

    A collector without a job goes on to write logs and metrics of its own, but no traces.
    """
    times = [0.0]
    for file in [file for file in files if file.signal == "traces"] or files:
        with suppress(OSError):
            times.append(file.path.stat().st_mtime)
    return max(times), output.name
