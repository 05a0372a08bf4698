"""Traces of PyTorch's profiler (Kineto), brought onto the clock and beside the tracks of the run.

A trace keeps its tracks; process numbers and ids of flows are changed, so that no two traces share one. Times are taken
as the machine had them: the clocks of several machines are not compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeGuard

from otel_rl.export.json_stream import Cut, ObjectsOf
from otel_rl.export.safe_json import encoded, microseconds
from otel_rl.export.timeline_rows import is_moment
from otel_rl.export.trace_events import metadata
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How ``tensorboard_trace_handler`` and most programs name them.
PATTERNS = ("*.pt.trace.json", "*.pt.trace.json.gz")
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})')
_RANK = re.compile(r'"rank"\s*:\s*(\d{1,9})')
#: Numbers that each trace has for its processes, threads with names instead of numbers, and flows.
_THREADS, _FLOWS = 1_000_000, 2**44
_LARGEST = 2**31
#: Of a time, in µs.
_LATEST = 2**60
_NO_NAME = "others"


@dataclass(slots=True)
class TorchTrace:
    """One trace: where its clock begins, in ns since the epoch, and when its first event was."""

    path: Path
    base: int = 0
    first: int | None = None
    rank: int | None = None
    events: int = 0
    is_cut: bool = False
    _processes: dict[Any, int] = field(default_factory=dict)
    _threads: dict[tuple[Any, Any], int] = field(default_factory=dict)

    def look(self) -> None:
        """Find its clock and its first event; reads it once.

        Raises:
            UnusableInput: it cannot be read, or holds no events.
        """
        objects = ObjectsOf(self.path, "traceEvents")
        earliest: Decimal | int | None = None
        try:
            for event in objects:
                self.events += 1
                time = event.get("ts")
                if event.get("ph") != "M" and _is_time(time) and (earliest is None or time < earliest):
                    earliest = time
        except Cut:
            self.is_cut = True
        except OSError as error:
            raise UnusableInput(f"{self.path}: {error.strerror or error}") from error
        if not self.events:
            raise UnusableInput(f"{self.path} holds no trace events; give a file that torch.profiler exported")
        around = objects.head + objects.tail
        if (base := _BASE.search(around)) is not None:
            self.base = int(base[1])
        if (rank := _RANK.search(around)) is not None:
            self.rank = int(rank[1])
        if earliest is not None:
            self.first = self.base + int(earliest * 1000)
            if not is_moment(self.first):
                raise UnusableInput(
                    f"{self.path} has no baseTimeNanoseconds: its clock cannot be compared; record it with PyTorch 2.3"
                    " or newer"
                )

    def processes(self) -> int:
        """Return how many processes it has named so far."""
        return len(self._processes)

    def moved(self, origin: int, number: int, first_process: int) -> Iterator[bytes]:
        """Yield its events, with times in µs since ``origin`` (ns since the epoch); reads it once.

        ``number`` is its place among the traces, ``first_process`` the lowest number that a process of it gets.
        """
        shift = self.base - origin
        try:
            for event in ObjectsOf(self.path, "traceEvents"):
                yield from self._moved(event, shift, number, first_process)
        except (Cut, OSError):
            self.is_cut = True

    def _moved(self, event: dict[str, Any], shift: int, number: int, first_process: int) -> Iterator[bytes]:
        process, thread = event.pop("pid", 0), event.pop("tid", 0)
        if str(process) not in self._processes:
            self._processes[str(process)] = first_process + len(self._processes)
            pid = self._processes[str(process)]
            yield metadata("process_sort_index", pid, {"sort_index": pid})
            yield metadata("process_name", pid, {"name": f"{self._whose()}: {str(process) or _NO_NAME}"})
        pid = self._processes[str(process)]
        if event.get("ph") == "M":
            if event.get("name") == "process_sort_index":
                return
            arguments = event.get("args")
            if event.get("name") == "process_name" and isinstance(arguments, dict):
                arguments["name"] = f"{self._whose()}: {arguments.get('name')} {process}"
        tid, is_new = self._thread(process, thread)
        if is_new:
            yield metadata("thread_name", pid, {"name": str(thread) or _NO_NAME}, tid)
        if event.get("s") == "g":
            # Over all tracks there are the findings alone.
            event["s"] = "p"
        identity = event.get("id")
        if isinstance(identity, int):
            event["id"] = identity + number * _FLOWS
        time, duration = event.pop("ts", None), event.pop("dur", None)
        place = [f'"pid":{pid},"tid":{tid}']
        if _is_time(time):
            place.append(f'"ts":{microseconds(int(time * 1000) + shift)}')
        if _is_time(duration):
            place.append(f'"dur":{microseconds(int(duration * 1000))}')
        rest = encoded(_plain(event))
        yield b"{" + ",".join(place).encode() + (b"," + rest[1:] if event else b"}")

    def _thread(self, process: Any, thread: Any) -> tuple[int, bool]:
        """Return the number of a thread, and whether it is new and had a name instead."""
        if isinstance(thread, int) and not isinstance(thread, bool) and 0 <= thread < _LARGEST:
            return thread, False
        key = (str(process), str(thread))
        known = self._threads.get(key)
        if known is not None:
            return known, False
        self._threads[key] = _LARGEST + len(self._threads) % _THREADS
        return self._threads[key], True

    def _whose(self) -> str:
        return f"profiler rank {self.rank}" if self.rank is not None else f"profiler {self.path.name.partition('.')[0]}"


def find(run: Path, given: list[Path]) -> tuple[list[TorchTrace], list[str]]:
    """Return the traces in the folder of a run, and those at ``given``, files or folders of them; and notes.

    One in the run's folder that cannot be read, since it is still written for example, is left out with a note.

    Raises:
        UnusableInput: one that was given is not there, or cannot be read.
    """
    wanted = dict.fromkeys(path for place in given for path in _traces_at(place))
    traces, notes = [], []
    for path in {**dict.fromkeys(_traces_in(run)), **wanted}:
        trace = TorchTrace(path)
        try:
            trace.look()
        except UnusableInput as error:
            if path in wanted:
                raise
            notes.append(f"left out: {error}")
        else:
            traces.append(trace)
    return traces, notes


def _traces_at(place: Path) -> list[Path]:
    if place.is_file():
        return [place.resolve()]
    if not place.is_dir():
        raise UnusableInput(f"{place}: no such file; give a trace of torch.profiler, or a folder of them")
    found = _traces_in(place)
    if not found:
        raise UnusableInput(f"{place} holds no {PATTERNS[0]}; give the file of the profiler itself")
    return found


def _traces_in(folder: Path) -> list[Path]:
    return sorted(path.resolve() for pattern in PATTERNS for path in folder.rglob(pattern) if path.is_file())


def _is_time(value: Any) -> TypeGuard[int | Decimal]:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool) and -_LATEST < value < _LATEST


def _plain(value: Any) -> Any:
    """Return a value with numbers that JSON is written with."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
