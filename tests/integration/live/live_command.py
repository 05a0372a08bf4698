"""`otel-rl live` as a process, what a browser would ask it, and real ranks to follow."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from support import forked_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.forked_programs import Program

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 90
RANKS = """
import os, pathlib, signal, sys, time, torch, otel_rl, torch.distributed as dist

FOLDER = pathlib.Path(sys.argv[1])

def awaited(name):
    while not (FOLDER / name).exists():
        time.sleep(0.05)

dist.init_process_group("gloo")
rank, message = dist.get_rank(), torch.ones(4)
for number in range(1, {steps}):
    with otel_rl.step(number):
        with otel_rl.phase("train"):
            time.sleep(0.1)
            {what}
            dist.all_reduce(message)
dist.destroy_process_group()
"""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**environ, "OTEL_RL_RING_DIR": str(folder), **variables}


class Ranks:
    """The processes of a job, which share the import of torch."""

    def __init__(self, programs: list[Program], process: subprocess.Popen[str]) -> None:
        self._programs, self._process = programs, process

    def poll(self) -> int | None:
        """Return a status once all have ended; None before."""
        return self._process.poll()

    def wait(self) -> list[int | None]:
        self._process.wait(TIMEOUT)
        return [one.status for one in self._programs]


@contextmanager
def ranks(folder: Path, what: str, steps: int, **variables: str) -> Iterator[Ranks]:
    """Two ranks over gloo that write into ``folder/otel-rl/run``, started as a launcher would."""
    program = folder / "train.py"
    program.write_text(RANKS.format(what=what.replace("\n", "\n" + " " * 12), steps=steps))
    own = {"OTEL_RL_RUN_ID": "run", "OTEL_RL_RING": "on", "OTEL_RL_DATA_DIR": str(folder / "otel-rl"), **variables}
    programs = forked_programs.ranks([str(program), str(folder)], folder, own)
    process = forked_programs.start(["torch.distributed"], programs, environment(folder))
    try:
        yield Ranks(programs, process)
    finally:
        forked_programs.stop(process)


class Live:
    """The running command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.address = _line(process) if process.stdout is not None else ""
        parts = urlsplit(self.address)
        self.port, self.path = parts.port or 0, parts.path

    def ask(self, path: str = "", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of an answer; ``path`` is below the token unless it begins with a slash."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request(method, path if path.startswith("/") else self.path + path, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def events(self, name: str, since: str = "", **headers: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Kind, id and content of the events of a run, until a deadline; messages are ``changes`` or ``status``."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request("GET", f"{self.path}run/{name}/events{since}", headers=headers)
        answer = connection.getresponse()
        fields: dict[str, str] = {}
        deadline = time.monotonic() + TIMEOUT
        try:
            while line := answer.readline().decode():
                assert time.monotonic() < deadline, "what the test waits for did not come"
                key, colon, value = line.rstrip("\n").partition(": ")
                if colon:
                    fields[key] = value
                elif "event" in fields:
                    kind, number = fields["event"], fields.get("id", "")
                    if kind == "message":
                        kind = "changes" if number else "status"
                    yield kind, number, json.loads(fields["data"])
                    fields = {}
        finally:
            connection.close()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(TIMEOUT)


def _line(process: subprocess.Popen[str]) -> str:
    readable, _, _ = select.select([process.stdout], [], [], TIMEOUT)
    line = process.stdout.readline().strip() if readable and process.stdout is not None else ""
    assert line.startswith("http://127.0.0.1:"), (line, process.poll())
    return line


@contextmanager
def started(
    folder: Path, *arguments: str, page: bool = True, stderr: str = "live-stderr", **variables: str
) -> Iterator[Live]:
    """``otel-rl live ARGUMENTS``, with standard error in the file ``stderr`` of the folder."""
    port = ("--port", "0") if page and "--port" not in arguments else ()
    with (folder / stderr).open("w") as said:
        process = subprocess.Popen(
            [SCRIPTS / "otel-rl", "live", *arguments, *port],
            cwd=folder,
            env=environment(folder, **variables),
            stdout=subprocess.PIPE if page else None,
            stderr=said,
            text=True,
        )
    try:
        yield Live(process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(TIMEOUT)
        if process.stdout is not None:
            process.stdout.close()


def awaited(condition: Any, process: Ranks | subprocess.Popen[Any] | None = None) -> Any:
    """The first true value of ``condition()``."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.1)
    return value
