"""Says what a long build is doing, and for how long: one changing line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PREFIX = "otel-rl build: "
TERMINAL_INTERVAL = 1.0
PLAIN_INTERVAL = 30.0
"""Seconds between two lines where standard error is no terminal."""

_CLEAR_LINE = "\r\x1b[K"
#: What ``go build -v`` prints for each package that it has compiled; all its other lines have a space or a colon.
_PACKAGE = re.compile(r"[\w.~/-]+")


class Display:
    """Shows one command: begin, time and packages so far, end. Other lines of the command are passed on."""

    def __init__(self, doing: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._doing, self._stream, self._clock = doing, stream, clock
        self._packages = 0
        self._begun = self._told = clock()
        self._on_terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._interval = TERMINAL_INTERVAL if self._on_terminal else PLAIN_INTERVAL
        self._write(f"{PREFIX}{doing}", stays=not self._on_terminal)

    def line(self, line: str) -> None:
        """Take in one line of the command."""
        if _PACKAGE.fullmatch(line):
            self._packages += 1
        else:
            self._write(line, stays=True)

    def tick(self) -> None:
        """Tell the time, where the last time is long enough ago; call it every second or so."""
        now = self._clock()
        if now - self._told >= self._interval:
            self._told = now
            self._write(f"{PREFIX}{self._doing}: {self._so_far()}", stays=not self._on_terminal)

    def end(self, outcome: str) -> None:
        """Say how it ended."""
        self._write(f"{PREFIX}{self._doing}: {outcome}, {self._so_far()}", stays=True)

    def _so_far(self) -> str:
        minutes, seconds = divmod(round(self._clock() - self._begun), 60)
        packages = f"{self._packages} packages, " if self._packages else ""
        return f"{packages}{minutes}:{seconds:02} min"

    def _write(self, text: str, *, stays: bool) -> None:
        self._stream.write(f"{_CLEAR_LINE if self._on_terminal else ''}{text}{chr(10) if stays else ''}")
        self._stream.flush()


def run(doing: str, command: Sequence[str | Path], folder: Path, environment: dict[str, str] | None) -> None:
    """Run ``command`` with its progress on standard error.

    Raises:
        OSError: It cannot be started.
        subprocess.CalledProcessError: Its exit code is not zero.
    """
    display = Display(doing, sys.stderr)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        _follow(process.stdout, display)
    display.end("failed" if process.returncode else "done")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _follow(output: IO[bytes], display: Display) -> None:
    """Hand the lines of ``output`` to ``display`` until it ends."""
    waiting = b""
    while True:
        if select.select([output], [], [], TERMINAL_INTERVAL)[0]:
            read = os.read(output.fileno(), 1 << 16)
            if not read:
                break
            *lines, waiting = (waiting + read).split(b"\n")
            for line in lines:
                display.line(line.decode(errors="replace"))
        display.tick()
    if waiting:
        display.line(waiting.decode(errors="replace"))
