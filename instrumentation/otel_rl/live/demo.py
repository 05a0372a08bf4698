"""A small job of its own in a temporary folder, for ``otel-rl live --demo``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.process import launch
from otel_rl.store.reader.processes import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RANKS = 2
_PROGRAM = "otel_rl.live.demo_program"
#: The command `opentelemetry-instrument`, wherever it is installed.
_INSTRUMENT = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
#: Seconds for the first files to appear, and for the job to end.
_START, _END = 30.0, 10.0


class NoDemo(Exception):  # noqa: N818 - reads as what it is
    """The job has not begun; the message says why."""


@contextmanager
def running() -> Iterator[Path]:
    """Run the job while the block runs; gives the data folder, which is removed with the job.

    Raises:
        NoDemo: it does not begin.
    """
    folder = Path(tempfile.mkdtemp(prefix="otel-rl-demo-"))
    run = f"demo-{os.getpid()}"
    environ = _environ(folder, run)
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        ranks += (_start(folder, environ, rank) for rank in range(_RANKS))
        _await_files(folder / "otel-rl" / run, folder, ranks)
        yield folder / "otel-rl"
    finally:
        for process in ranks:
            process.terminate()
        for process in ranks:
            _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _environ(folder: Path, run: str) -> dict[str, str]:
    """Return the variables of both ranks, which this process launches as torchrun would."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SLURM_"))}
    environ = kept | {name: os.environ[name] for name in ("OTEL_RL_RING_DIR",) if name in os.environ}
    environ |= {
        "OTEL_RL_RUN_ID": run,
        "OTEL_RL_DATA_DIR": str(folder / "otel-rl"),
        "OTEL_RL_QUIET": "true",
        "OTEL_SERVICE_NAME": "otel-rl demo",
    }
    launch.prepare(environ, (sys.executable, "torchrun"), begins=True)
    return environ


def _start(folder: Path, environ: Mapping[str, str], rank: int) -> subprocess.Popen[bytes]:
    number, ranks = str(rank), str(_RANKS)
    variables = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    with (folder / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", _INSTRUMENT, sys.executable, "-m", _PROGRAM],
            cwd=folder,
            env={**environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _await_files(run: Path, folder: Path, ranks: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _START
    while len(list(run.glob(f"*/{MANIFEST}"))) < _RANKS:
        ended = next((rank for rank, process in enumerate(ranks) if process.poll() is not None), None)
        if ended is not None or time.monotonic() > deadline:
            log = (folder / f"rank{ended or 0}.log").read_text(errors="replace").strip().splitlines()
            raise NoDemo(f"the job does not begin: {log[-1] if log else 'it said nothing'}")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
