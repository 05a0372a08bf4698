"""What the warm launcher starts is what ``opentelemetry-instrument`` starts: the other tests here rely on it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from process_support import INSTRUMENT, Programs

if TYPE_CHECKING:
    from pathlib import Path

#: All that a program inherits.
SHOW = """
import json, os, sys
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t", 1) for line in file.read().splitlines() if ":\\t" in line)
environ = {name: "" if name in ("OTEL_RL_RUN_ID", "OTEL_RL_LAUNCH", "OTEL_RL_PROCESS") else value
           for name, value in os.environ.items()}
print(json.dumps({
    "environment": environ, "arguments": [sys.argv, sys.orig_argv, os.getcwd()], "parent": os.getppid(),
    "group": os.getpgrp(), "session": os.getsid(0), "threads": status["Threads"],
    "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
    "files": sorted(os.listdir("/proc/self/fd")), "limits": open("/proc/self/limits").read(),
    "path": sys.path, "modules": sorted(sys.modules),
}))
"""


def _inherited(programs: Programs, command: list[str | Path], **environ: str) -> dict[str, Any]:
    done = programs.run(*command, **environ)
    assert (done.code, done.err) == (0, ""), done.err
    return dict(json.loads(done.out))


def test_a_program_inherits_from_it_what_it_inherits_from_the_command(programs: Programs, tmp_path: Path) -> None:
    program = programs.write("program.py", SHOW)
    command = [INSTRUMENT, "--service_name=mine", sys.executable, "-u", program, "--config", "a b"]
    environ = {"MINE": "l\udce4uf", "OTEL_RL_SLOWEST": "3"}

    real = Programs(tmp_path)
    real.environ = programs.environ
    assert _inherited(programs, command, **environ) == _inherited(real, command, **environ)


def test_status_and_output_are_those_of_the_command(programs: Programs, tmp_path: Path) -> None:
    for command in (
        ["--help"],
        ["no-such-program"],
        ["--service_name"],
        ["sh", "-c", "echo out; echo err >&2; exit 7"],
    ):
        real, warm = Programs(tmp_path).run(INSTRUMENT, *command), programs.run(INSTRUMENT, *command)
        assert warm == real

    assert programs.run(INSTRUMENT, "sh", "-c", "kill -TERM $$").code == -15
