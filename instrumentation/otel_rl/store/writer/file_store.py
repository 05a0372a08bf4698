"""Bounded, rotated files of one process: whole lines or nothing, never more than allowed, never the program's problem.

The files' I/O thread is the only one that calls :meth:`FileStore.write`, :meth:`FileStore.compress`,
:meth:`FileStore.refresh` and :meth:`FileStore.close`; there is no lock. Other threads may set a flag with
:meth:`FileStore.mark_stale`. Another one in its place calls :meth:`FileStore.show`, and
:meth:`FileStore.withdraw` where nothing followed.

Every stream has its own share of the bound. A full stream loses its oldest file, so the newest data stays; errors are a
stream of their own, so they stay too, and copies are one, so that they take no room from others. What is removed or
cannot be written is counted by reason (``store_full``, ``disk_full``, ``store_unwritable``, and ``store_removed`` where
somebody else removed it) and reported once on stderr.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import remove_file
from otel_rl.store.writer import manifest
from otel_rl.store.writer.rotating_file import FILE_MODE, Descriptor, Full, RotatingFile
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Stream -> its part of ``OTEL_RL_DATA_MAX_BYTES``. A stream's files begin with its name.
SHARES = {
    "traces": 0.20,
    "traces-errors": 0.03,
    "metrics": 0.12,
    # Rows of rollouts compress worst: each has a trace id, and mostly another random one.
    "logs": 0.57,
    "logs-errors": 0.04,
    "logs-pending": 0.04,
}
#: Copies of rows that wait for the end of their step. Many times as many have room as can wait, so that the oldest are
#: of no use, and their removal is no loss.
_COPIES = "logs-pending"
#: What :meth:`FileStore.show` writes; the first record takes its place.
_SHOWN = "logs-shown-0000.jsonl"
#: A stream has at least this many files, so that making room removes a small part of it.
_FILES_PER_STREAM = 8
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DIRECTORY_MODE = 0o700
_GITIGNORE = ".gitignore"


@dataclass(eq=False, repr=False)
class FileStore:
    """The directory of one process and the files that each stream is appended to.

    Nothing is created before :meth:`show` or the first :meth:`write`.

    Args:
        root: The data directory, absolute.
        place: Gives the process' directory below ``root``, as ``<run id>/<name>``; asked when it is created.
        describe: Gives the manifest's content, ``format`` excepted.
        file_limit: Bytes after which a file is followed by the next one.
        total_limit: Bytes that this process keeps in all.
        warn: Receives the one line that says why data is dropped.
    """

    root: str
    place: Callable[[], str]
    describe: Callable[[], Mapping[str, Any]]
    _: KW_ONLY
    file_limit: int
    total_limit: int
    warn: Callable[[str], None]

    def __post_init__(self) -> None:
        self._root = Path(self.root)
        self._inherited: list[Descriptor] = []
        self._reset()

    def _reset(self) -> None:
        self._files: dict[str, RotatingFile] = {}
        self.directory: Path | None = None
        #: When the file system last did what it was asked for (``time.monotonic()``).
        self.progressed = 0.0
        # Device and inode of the directory, and of the root directory when it was made.
        self._made: tuple[tuple[int, int] | None, tuple[int, int] | None] = None, None
        self._stale = False
        #: Only :meth:`show` has written so far: the directory is named anew where :attr:`_place` has changed.
        self.is_only_shown = False
        #: Directories above it that this process has made.
        self._parents: set[Path] = set()
        self._warned: set[str] = set()

    def after_fork_in_child(self) -> None:
        """Begin anew: the child gets a directory of its own. Its first write closes the parent's descriptors."""
        # Closing is a system call that a stalled file system holds up; this runs on the program's thread.
        self._inherited += [file.descriptor for file in self._files.values() if file.descriptor is not None]
        self._reset()

    def largest_line(self, stream: str) -> int:
        """Bytes of the longest line (without its newline) that ``stream`` can hold."""
        return self._share(stream) - 1

    def _share(self, stream: str) -> int:
        return max(int(self.total_limit * SHARES[stream]), 1)

    def write(self, stream: str, line: bytes, items: int) -> bool:
        """Append one line (without its newline) that carries ``items``; False when they were dropped."""
        data = line + b"\n"
        try:
            self._close_inherited()
            self._begin_anew_if_removed()
            self._settle(has_record=True)
            file = self._file(stream)
            self.progressed = time.monotonic()
            self._count_removed(stream, file.append(data, items))
            self._count_removed_by_others({stream: file.take_removed()})
        except Full:
            self._drop(stream, "store_full", items, None)
        except OSError as error:
            self._drop(stream, "disk_full" if error.errno in _DISK_FULL else "store_unwritable", items, error)
        else:
            self.progressed = time.monotonic()
            return True
        return False

    def show(self, line: bytes) -> None:
        """Make the directory with its manifest and one ``line``, for readers who ask before the first record.

        Nothing stays open, and nothing is reported: what stands in the way is met again by the first record.
        """
        if self.directory is None:
            try:
                self.is_only_shown = True
                _write_new(self._create() / _SHOWN, line + b"\n")
            except OSError:
                self.directory = self._root / self.place()
                self.withdraw()

    def withdraw(self) -> None:
        """Remove what :meth:`show` has made, and the folders above it that are empty then."""
        directory, shown, self.directory, self.is_only_shown = self.directory, self.is_only_shown, None, False
        if directory is None or not shown:
            return
        with suppress(OSError):
            for path in (directory / _SHOWN, directory / manifest.NAME):
                remove_file(path)
            directory.rmdir()
        self._remove_empty(directory.parent, self._root)

    def _settle(self, *, has_record: bool) -> None:
        """Give the directory the name that the identity has by now; the first record replaces what was shown."""
        if not self.is_only_shown or self.directory is None:
            return
        place = self._root / self.place()
        if place != self.directory:
            # Where it cannot be moved it keeps its name: the manifest says who the process is.
            with suppress(OSError):
                before = self.directory
                self._make_run(place.parent)
                before.rename(place)
                self.directory, self._stale = place, True
                self._remove_empty(before.parent)
        if has_record:
            self.is_only_shown, self._stale = False, True
            with suppress(OSError):
                remove_file(self.directory / _SHOWN)

    def _remove_empty(self, *directories: Path) -> None:
        """Remove what this process has made, where nobody has put anything into it."""
        for directory in filter(self._parents.__contains__, directories):
            with suppress(OSError):
                if [entry.name for entry in os.scandir(directory)] == [_GITIGNORE]:
                    remove_file(directory / _GITIGNORE)
                directory.rmdir()

    def _close_inherited(self) -> None:
        while self._inherited:
            self._inherited.pop().close()

    def _file(self, stream: str) -> RotatingFile:
        directory = self.directory or self._create()
        if stream not in self._files:
            share = self._share(stream)
            limit = min(self.file_limit, max(share // _FILES_PER_STREAM, 1))
            self._files[stream] = RotatingFile(directory, stream, limit, share)
        return self._files[stream]

    def _create(self) -> Path:
        # A directory that was there before may hold the user's own things: only what we made is hidden from git.
        if _make_directory(self._root):
            self._parents.add(self._root)
            _hide_from_git(self._root)
        directory = self._root / self.place()
        try:
            self._make_in_run(directory)
        except PermissionError:
            # The run's folder is of another user, as this process was one when it was shown: it gets one beside it.
            run = directory.parent
            directory = run.with_name(f"{run.name}-uid{os.geteuid()}") / directory.name
            self._make_in_run(directory)
        self._stale = False
        manifest.write(directory, self.describe())
        self.directory = directory
        self._made = _identity(directory), _identity(Path("/"))
        return directory

    def _make_in_run(self, directory: Path) -> None:
        self._make_run(directory.parent)
        _make_directory(directory)

    def _make_run(self, directory: Path) -> None:
        if _make_directory(directory):
            self._parents.add(directory)
            if not (self._root / _GITIGNORE).exists():
                _hide_from_git(directory)

    def _begin_anew_if_removed(self) -> None:
        """Make the directory again where somebody has removed or moved it: what is written there reaches no reader."""
        if self.directory is None or _identity(self.directory) == self._made[0]:
            return
        # After chroot the path means another place; the descriptors still mean the right one.
        if self._files and _identity(Path("/")) != self._made[1]:
            return
        removed = {stream: file.items for stream, file in self._files.items()}
        self.close()
        self._files, self.directory, self.is_only_shown = {}, None, False
        self._count_removed_by_others(removed)

    def _count_removed_by_others(self, removed: Mapping[str, int]) -> None:
        for stream, items in removed.items():
            if items:
                drops.count(stream.partition("-")[0], "store_removed", items)
        if any(removed.values()) and "store_removed" not in self._warned:
            self._warned.add("store_removed")
            self.warn(
                f"otel-rl: files of this run below {self._root} were removed or moved while the program writes to them;"
                " new ones are begun, what the others held is counted as dropped"
            )

    def _count_removed(self, stream: str, items: int) -> None:
        if items and stream != _COPIES:
            self._drop(stream, "store_full", items, None)

    def _drop(self, stream: str, reason: str, items: int, error: OSError | None) -> None:
        drops.count(stream.partition("-")[0], reason, items)
        if reason in self._warned:
            return
        self._warned.add(reason)
        if error is None:
            self.warn(
                f"otel-rl: {self.directory or self._root} holds OTEL_RL_DATA_MAX_BYTES={self.total_limit} bytes of"
                " this process in its shares; the oldest is removed and counted; raise the limit or use a collector"
            )
        else:
            self.warn(
                f"otel-rl: cannot write to {self._root} ({os.strerror(error.errno or 0)}); telemetry is dropped and"
                " counted until that works; set OTEL_RL_DATA_DIR to a directory with space that can be written"
            )

    def compress(self) -> bool:
        """Compress a slice of a file that is full; False where there is none."""
        if not any(file.compress() for file in self._files.values()):
            return False
        self.progressed = time.monotonic()
        return True

    def mark_stale(self) -> None:
        """Note that the manifest's content has changed; any thread may call this."""
        self._stale = True

    def refresh(self) -> None:
        """Write the manifest again if there is one and it is stale."""
        if not self._stale or self.directory is None:
            return
        self._stale = False
        try:
            self._begin_anew_if_removed()
            self._settle(has_record=False)
            self._stale = False
            manifest.write(self.directory or self._create(), self.describe())
        except OSError as error:
            self._drop("metrics", "store_unwritable", 0, error)

    def close(self) -> None:
        """Close the files; a later write opens the next one. What is not compressed yet stays as it is."""
        for file in self._files.values():
            file.close()
            file.cancel_compression()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_directory(path: Path) -> bool:
    """Make ``path`` readable by its owner only; True when it was not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(_DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return False
    return True


def _hide_from_git(directory: Path) -> None:
    _write_new(directory / _GITIGNORE, b"*\n")


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
