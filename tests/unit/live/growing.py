"""Writes a recorded run a second time, a piece at a time, as its processes did."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOMENT = re.compile(rb'"(?:endTimeUnixNano|timeUnixNano|observedTimeUnixNano)": ?"?(\d+)')
#: Seconds between a record and the line that holds it: files are written every 5 s, and not all at once.
_DELAY = 5.0


#: Names of what an export request holds, from the outside to the inside.
_LEVELS = (
    ("resourceSpans", "scopeSpans", "spans"),
    ("resourceMetrics", "scopeMetrics", "metrics"),
    ("resourceLogs", "scopeLogs", "logRecords"),
)


def split_into_small_lines(run: Path, most: int = 4) -> Path:
    """Write the files of a run again with so few records in each line; return the run."""
    for path in run.rglob("*.jsonl"):
        path.write_text("".join(_small(line, most) for line in path.read_text().splitlines()))
    return run


def _small(line: str, most: int) -> str:
    request, small = json.loads(line), []
    resources, scopes, records = next(levels for levels in _LEVELS if levels[0] in request)
    for resource in request[resources]:
        for scope in resource[scopes]:
            for first in range(0, len(scope[records]), most):
                part = {**scope, records: scope[records][first : first + most]}
                small.append(json.dumps({resources: [{**resource, scopes: [part]}]}) + "\n")
    return "".join(small)


class GrowingRun:
    """The files of ``recorded``, written anew below ``folder`` in the order of their records.

    Lines of different files change places within some seconds, and every piece ends with half a line.
    """

    def __init__(self, recorded: Path, folder: Path, seed: int = 1) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self.folder = folder / recorded.name
        self._lines = sorted(self._timed(recorded), key=lambda line: line[0])
        for path in recorded.rglob("*"):
            if path.is_file() and path.suffix != ".jsonl":
                target = self.folder / path.relative_to(recorded)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())

    def _timed(self, recorded: Path) -> Iterator[tuple[int, Path, bytes]]:
        for path in sorted(recorded.rglob("*.jsonl")):
            last = 0
            for line in path.read_bytes().splitlines(keepends=True):
                moment = max(map(int, _MOMENT.findall(line)), default=0)
                # Lines of one file stay in order.
                last = max(last, moment + int(self._random.uniform(0, _DELAY) * 1e9))
                yield last, path.relative_to(recorded), line

    def pieces(self, number: int) -> Iterator[None]:
        """Write everything in so many pieces; yield after each."""
        size = len(self._lines) // number + 1
        begun = b""
        for first in range(0, len(self._lines), size):
            for _, path, line in self._lines[first : first + size]:
                self._append(path, line[len(begun) :])
                begun = b""
            if first + size < len(self._lines):
                _, path, line = self._lines[first + size]
                begun = line[: len(line) // 2]
                self._append(path, begun)
            yield

    def _append(self, path: Path, content: bytes) -> None:
        with (self.folder / path).open("ab") as stream:
            stream.write(content)
