"""The runs of a data folder, the live ones first; of thousands only the shown ones are looked at closely."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.process import lifetime
from otel_rl.store.reader import run_rows
from otel_rl.store.reader.end_states import EndState
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.locate import find_run
from otel_rl.store.reader.processes import MANIFEST, Process, from_folder
from otel_rl.store.reader.run_list import list_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.store.reader.run_rows import RunRow

#: Seconds without a new byte after which what runs on another machine does not live: metrics alone are written more
#: often; and after which nothing more is expected of it.
_QUIET, _GIVEN_UP = 600.0, 86400.0
_OPEN = {state.value for state in EndState if state.is_open}
_NOT_AT_THE_END = "it is not in the ends of the collector's files; its page reads all of them"
#: Seconds for which the list is kept, and how many times as long as it takes: the files of collectors are read whole.
_KEPT, _TIMES_KEPT = 5.0, 20.0


@dataclass(slots=True)
class ListedRun:
    """One run of the folder; ``name`` is that of its folder, or the id of a run in files of collectors."""

    name: str
    path: Path
    #: Which run of several in ``path``; None: its only one.
    run: str | None
    #: Wall clock (s) of the last byte; 0 where that is not known.
    last_sign: float
    is_live: bool = False
    #: What the ends of a collector's files say of it; None: its folder says more.
    row: RunRow | None = None


class RunIndex:
    """The runs below ``directory``, which may be a run itself."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._listed: list[ListedRun] = []
        #: When it is read again, of the monotonic clock.
        self._due = 0.0
        #: Folder of a process whose end is known -> its last byte: nothing is written there any more.
        self._closed: dict[str, float] = {}

    def runs(self) -> list[ListedRun]:
        """Return all runs, the live ones first, then those that were written last.

        Raises:
            UnusableInput: the folder holds no run, or cannot be read.
        """
        began = time.monotonic()
        if began >= self._due:
            self._listed = sorted(self._find(), key=lambda run: (not run.is_live, -run.last_sign))
            ended = time.monotonic()
            self._due = ended + max(_KEPT, _TIMES_KEPT * (ended - began))
        return self._listed

    def find(self, name: str) -> ListedRun | None:
        """Return the run of this name."""
        with suppress(UnusableInput):
            return next((run for run in self.runs() if run.name == name), None)
        return None

    def _find(self) -> list[ListedRun]:
        try:
            listed = list(self._stores())
        except OSError as error:
            raise UnusableInput(f"{self.directory}: {error.strerror or error}") from error
        if listed:
            return listed
        source = find_run(self.directory)
        if source.processes:
            last = max((_written(file.path) for file in source.files), default=time.time())
            folders = [str(source.path / process.key) for process in source.processes]
            return [ListedRun(source.path.name or "run", source.path, None, last, _is_live(folders, last))]
        return self._of_collectors([source.run_id or source.path.name, *source.others])

    def _of_collectors(self, names: list[str]) -> list[ListedRun]:
        """Return the runs in files of collectors; of those that their ends do not name little is known."""
        rows: dict[str, RunRow] = {}
        with suppress(UnusableInput):
            rows = {row.id: row for row in list_runs(self.directory)}
        listed = []
        for name in names:
            row = rows.get(name) or run_rows.refused(self.directory, _NOT_AT_THE_END)
            last = row.last_sign / 1e9
            is_live = row.state in _OPEN and time.time() - last <= _QUIET
            listed.append(ListedRun(name, self.directory, name, last, is_live, row))
        return listed

    def _stores(self) -> Iterator[ListedRun]:
        """Yield the runs of the file store."""
        with os.scandir(self.directory) as entries:
            folders = [entry for entry in entries if entry.is_dir()]
        for folder in folders:
            processes = list(self._processes(folder.path))
            if processes:
                last = max(sign for _, sign in processes)
                is_live = _is_live((path for path, _ in processes if path not in self._closed), last)
                yield ListedRun(folder.name, self.directory / folder.name, None, last, is_live)

    def _processes(self, run: str) -> Iterator[tuple[str, float]]:
        """Yield the folders of the processes of a run, with their last byte."""
        with suppress(OSError), os.scandir(run) as entries:
            for entry in entries:
                if not entry.is_dir():
                    continue
                last = self._closed.get(entry.path) or self._last_byte(entry.path)
                if last:
                    yield entry.path, last

    def _last_byte(self, folder: str) -> float:
        """Return when something was written there last; 0 where it is no folder of a process."""
        last, is_process = 0.0, False
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                is_process = is_process or entry.name == MANIFEST or entry.name.endswith((".jsonl", ".jsonl.gz"))
                last = max(last, entry.stat().st_mtime)
        if not is_process:
            return 0.0
        quiet = time.time() - last
        if quiet > _QUIET and not _runs(from_folder(Path(folder)), quiet, _GIVEN_UP):
            self._closed[folder] = last
        return last


def _written(path: Path) -> float:
    """Return when a file was written last; 0 where it is gone, or has another name since it was compressed."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_live(folders: Iterable[str], last: float) -> bool:
    quiet = time.time() - last
    return any(_runs(from_folder(Path(folder)), quiet, _QUIET) for folder in folders)


def _runs(process: Process, quiet: float, most: float) -> bool:
    """Return whether a process may run that has written nothing for some seconds: a rank can hang for hours."""
    if process.number("ended_unix_nano"):
        return False
    is_alive = lifetime.is_alive(process.lifetime) if process.lifetime is not None else None
    # On another machine its files are the only sign.
    return quiet <= most if is_alive is None else is_alive


def row(run: ListedRun) -> RunRow:
    """Return what a list says of one run: from its summary and manifests, and the ends of its files."""
    return run.row or list_runs(run.path)[0]
