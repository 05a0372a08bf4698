"""The checkpoints that this process has saved, and what has become of the latest ones at its end."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.context import get_current

from otel_rl.process import process_identity
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlCheckpointStateValues as State
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.telemetry.deferral import Moment

_scope = Scope("checkpoints")
#: Most checkpoints that are looked for at the end, the latest ones.
MOST = 32
#: Most seconds of that, and of adding up the files of a folder: a file system may answer slowly.
_LONGEST_CHECK = 0.05
#: Most files of a folder whose sizes are added up.
_MOST_FILES = 4096
#: How a file of `torch.save` begins, and the record at its end with its size.
_ZIP, _ZIP_END, _ZIP_END_SIZE = b"PK\x03\x04", b"PK\x05\x06", 22
#: Bytes of the length of the header with which a file of safetensors begins, and the longest header that is read.
_HEADER_AT, _LONGEST_HEADER = 8, 4 << 20


class _Saved(NamedTuple):
    number: int
    path: str
    #: Device and inode, by which it is found under another name; None where they cannot be read.
    file: tuple[int, int] | None
    size: int | None


_saved: deque[_Saved] = deque(maxlen=MOST)
_numbers = count(1)
_best: dict[str, Any] = {}


def is_listed_here() -> bool:
    """Return whether this process lists its checkpoints: of a checkpoint that all ranks write, only the first does."""
    return process_identity.current().rank in (None, 0)


def is_remote(path: str) -> bool:
    """Return whether ``path`` is an address (``s3://bucket/name``), of which this machine's files say nothing."""
    return "://" in path


def size_of(path: str) -> int | None:
    """Return the size in bytes of a file, or of the files in a folder; None where it cannot be read in time.

    At once, on the program's thread: what it has saved may have another name a moment later, or be gone.
    """
    if is_remote(path):
        return None
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - no object per file
            return os.stat(path).st_size  # noqa: PTH116
        return _size_in(path, time.monotonic() + _LONGEST_CHECK)
    except OSError:
        return None


def _size_in(folder: str, until: float) -> int | None:
    size = files = 0
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if time.monotonic() > until:
                    return None
                if entry.is_dir():
                    folders += () if entry.is_symlink() else (entry.path,)
                    continue
                files += 1
                if files > _MOST_FILES:
                    return size
                size += entry.stat().st_size
    return size


def add(path: str, file_format: str, size: int | None, seconds: float, at: Moment) -> None:
    """Record a checkpoint at ``path`` that has been saved ``at`` a moment; look for it at the end, if it is a file."""
    own_number = next(_numbers)
    if not is_remote(path):
        path = os.path.abspath(path)  # noqa: PTH100 - the program may change its directory
        _saved.append(_Saved(own_number, path, _file_at(path), size))
        lifecycle.before_shutdown(check)
    here = steps.where()
    attributes = {
        names.RL_CHECKPOINT_NUMBER: own_number,
        names.RL_CHECKPOINT_NAME: Path(path).name,
        names.RL_CHECKPOINT_FORMAT: file_format,
        names.RL_CHECKPOINT_SIZE: size,
        names.RL_CHECKPOINT_DURATION: seconds,
        names.RL_LOOP_ITERATION: here.iteration,
        names.RL_LOOP_NAME: here.loop.name if here.loop is not None else None,
    }
    context = get_current()
    deferral.post(
        Signal.LOGS,
        lambda: _scope.event(events.RL_CHECKPOINT_SAVED, attributes=attributes, context=context, timestamp=at.wall),
    )


def best(path: Any, metric: Any, value: Any) -> None:
    """Note what the trainer calls its best checkpoint, and the metric by which it compares them."""
    if isinstance(path, str) and isinstance(metric, str):
        _best[names.RL_CHECKPOINT_BEST_NAME] = Path(path).name
        _best[names.RL_CHECKPOINT_BEST_METRIC] = metric
        _best[names.RL_CHECKPOINT_BEST_VALUE] = number(value)


def _file_at(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file or folder; None where it is not there."""
    try:
        status = os.stat(path)  # noqa: PTH116 - no object per file
    except OSError:
        return None
    return status.st_dev, status.st_ino


class _Look:
    """A look for the latest checkpoints, from the last one on; programs rename what they have written whole."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._paths: set[str] = set()
        #: Where the latest checkpoint of each file was saved; a system gives the inode of a deleted one away again.
        self._files: dict[tuple[int, int], str] = {}
        #: Inodes in the folders that have been listed.
        self._listed: dict[str, set[int]] = {}

    def state_of(self, saved: _Saved) -> str:
        """Return what has become of a checkpoint that is older than those before."""
        is_first, there = saved.path not in self._paths, _file_at(saved.path)
        self._paths.add(saved.path)
        file = saved.file
        later = self._files.get(file) if file is not None else None
        if file is not None and later is None:
            self._files[file] = saved.path
        if is_first and there is not None:
            return State.KEPT
        if later == saved.path:
            return State.OVERWRITTEN
        if file is not None and later is None and file != there and self._is_beside(saved.path, file):
            return State.KEPT
        return State.OVERWRITTEN if there is not None else State.DELETED

    def _is_beside(self, path: str, file: tuple[int, int]) -> bool:
        """Return whether the folder has the file under another name."""
        folder = os.path.dirname(path)  # noqa: PTH120 - as the others
        if folder not in self._listed:
            self._listed[folder] = self._inodes_in(folder)
        of_folder = _file_at(folder)
        return of_folder is not None and of_folder[0] == file[0] and file[1] in self._listed[folder]

    def _inodes_in(self, folder: str) -> set[int]:
        inodes: set[int] = set()
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, _MOST_FILES):
                    if time.monotonic() > self._until:
                        break
                    inodes.add(entry.inode())
        except OSError:
            pass
        return inodes


def check() -> None:
    """Record which of the latest checkpoints are still there; the latest ones first, for as long as that may take."""
    until = time.monotonic() + _LONGEST_CHECK
    look = _Look(until)
    states: dict[int, str] = {}
    sizes: list[int | None] = []
    for saved in reversed(_saved):
        if time.monotonic() > until:
            break
        state = look.state_of(saved)
        # One that has another name by now is whole: its file is the same.
        size = size_of(saved.path) if state == State.KEPT and _file_at(saved.path) == saved.file else None
        if size is not None and saved.size is not None and size < saved.size:
            state = State.CUT if _is_cut(saved.path, size, until) else State.SMALLER
        states[saved.number] = state
        sizes.append(size)
    body = {
        names.RL_CHECKPOINT_NUMBER: list(states),
        names.RL_CHECKPOINT_STATE: list(states.values()),
        names.RL_CHECKPOINT_SIZE: sizes,
    }
    _scope.event(events.RL_CHECKPOINT_CHECKED, body=body, attributes=_best)
    _saved.clear()


def _is_cut(path: str, size: int, until: float) -> bool:
    """Return whether the end of a file is missing, or of one in a folder; others may have been written anew."""
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - as the others
            return _has_no_end(path, size)
        with os.scandir(path) as entries:
            files = (entry for entry in islice(entries, _MOST_FILES) if time.monotonic() < until and entry.is_file())
            return any(_has_no_end(entry.path, entry.stat().st_size) for entry in files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _has_no_end(path: str, size: int) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123 - as the others
        start = file.read(_HEADER_AT)
        if start.startswith(_ZIP):
            file.seek(max(size - _ZIP_END_SIZE, 0))
            return not file.read(_ZIP_END_SIZE).startswith(_ZIP_END)
        length = int.from_bytes(start, "little")
        if length > _LONGEST_HEADER or not size:
            return not size
        header = file.read(length)
    if not header.startswith(b"{"):
        return False
    if len(header) < length:
        return True
    tensors = (value for key, value in json.loads(header).items() if key != "__metadata__")
    return size < _HEADER_AT + length + max((value["data_offsets"][1] for value in tensors), default=0)


def _forget() -> None:
    global _numbers
    _saved.clear()
    _best.clear()
    _numbers = count(1)


lifecycle.after_fork_in_child(_forget)
