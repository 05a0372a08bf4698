"""Programs that share their imports: one process loads what is slow to import, and forks for each of them.

TRL takes ten seconds of CPU to import. A program that is forked records as one that calls ``initialize()`` of
OpenTelemetry itself, after its imports; that our hooks come before them is held by the programs that
``opentelemetry-instrument`` starts.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Seconds for all programs together.
_TIMEOUT = 900
_STREAMS = ("stdout", "stderr")
_RECORDING = {"OTEL_PYTHON_DISTRO": "otel_rl", "OTEL_PYTHON_CONFIGURATOR": "otel_rl"}


class Program(NamedTuple):
    """A program, as ``python`` is given it: the path of its file, and arguments.

    Attributes:
        command: the path and the arguments.
        folder: its working directory, which has its output, too.
        environ: its variables beside those of the process that forks.
        is_recorded: it calls ``initialize()`` before it begins.
        beside_next: the next program runs at the same time.
    """

    command: list[str]
    folder: str
    environ: dict[str, str]
    is_recorded: bool = True
    beside_next: bool = False

    def output(self, stream: str) -> str:
        """What it has printed on ``stdout`` or ``stderr``."""
        return self._file(stream).read_text(encoding="utf-8", errors="replace")

    @property
    def status(self) -> int | None:
        """The exit status; None before its end."""
        file = self._file("status")
        return int(file.read_text()) if file.exists() else None

    def check(self) -> None:
        """Raise unless the program has ended in order."""
        assert self.status == 0, self.output("stderr")[-4000:]

    def _file(self, name: str) -> Path:
        return Path(f"{self.folder}.{name}")


def ranks(command: list[str], folder: Path, environ: Mapping[str, str], *, is_recorded: bool = True) -> list[Program]:
    """Return a program on two ranks, which begin as those of a launcher do, each in a folder of its own."""
    from otel_rl.process import launch

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    common = {**environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if is_recorded:
        launch.prepare(common, (sys.executable, "torchrun"), begins=True)
    return [
        Program(
            command,
            str(folder / f"rank-{rank}"),
            {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            is_recorded,
            beside_next=rank == 0,
        )
        for rank in (0, 1)
    ]


def run(names: Sequence[str], programs: Sequence[Program], environ: Mapping[str, str]) -> None:
    """Run all programs one after the other, which their readers check."""
    process = start(names, programs, environ)
    try:
        assert process.wait(_TIMEOUT) == 0
    finally:
        stop(process)


def start(names: Sequence[str], programs: Sequence[Program], environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process that imports ``names``, ``MODULE`` or ``MODULE:OBJECT`` each, and then runs the programs."""
    for program in programs:
        Path(program.folder).mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, __file__, *names], stdin=subprocess.PIPE, env=environ, text=True, start_new_session=True
    )
    assert process.stdin is not None
    with process.stdin:
        json.dump(programs, process.stdin)
    return process


def stop(process: subprocess.Popen[str]) -> None:
    """End the programs that still run, and the process that has forked them."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _main() -> None:
    for name in sys.argv[1:]:
        pkgutil.resolve_name(name)
    # Collections of the programs do not go through what they share.
    gc.freeze()
    running = []
    for program in (Program(*one) for one in json.load(sys.stdin)):
        child = os.fork()
        if not child:
            _become(program)
            return
        running.append((child, program))
        if not program.beside_next:
            for pid, awaited in running:
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                awaited._file("status").write_text(str(status))
            running.clear()


def _become(program: Program) -> None:
    """Be the program; what it raises ends this process as it would end the program."""
    for number, name in enumerate(_STREAMS, 1):
        with program._file(name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.chdir(program.folder)
    os.environ.update(program.environ)
    sys.argv[:] = program.command
    paths = program.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(Path(program.command[0]).parent), *filter(None, paths)]
    if program.is_recorded:
        os.environ.update(_RECORDING)
        from opentelemetry.instrumentation.auto_instrumentation import initialize

        initialize(swallow_exceptions=False)
    runpy.run_path(program.command[0], run_name="__main__")


if __name__ == "__main__":
    _main()
