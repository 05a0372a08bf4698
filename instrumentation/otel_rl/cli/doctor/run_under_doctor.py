"""Runs a program under ``opentelemetry-instrument`` and takes in what was really instrumented there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.cli.doctor import named_functions
from otel_rl.cli.doctor.installed_instrumentors import NOT_INSTALLED
from otel_rl.core import instrumentor_status

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATCHED = (instrumentor_status.ACTIVE, instrumentor_status.DEGRADED)
_LAUNCHER = "opentelemetry-instrument"


class CannotRun(Exception):  # noqa: N818 - said of the program, not a crash
    """The program could not be started; the message is one line that says what to do."""


def observe(findings: dict[str, Any], command: Sequence[str], *, keep_stdout: bool) -> None:
    """Run ``command`` to its end and replace what was expected in ``findings`` by what happened.

    Args:
        findings: result of :func:`otel_rl.cli.doctor.environment_checks.check`.
        command: program and arguments.
        keep_stdout: False sends the program's stdout to stderr.

    Raises:
        CannotRun: there is no such program, or ``opentelemetry-instrument`` is missing.
    """
    launcher = _find_program(_LAUNCHER, "pip install opentelemetry-instrumentation into the environment of otel-rl")
    program = _find_program(command[0], "check its name")
    with tempfile.TemporaryDirectory(prefix="otel-rl-doctor-") as folder:
        file = Path(folder) / "status.json"
        environ = {**os.environ, "OTEL_RL_STATUS_FILE": str(file)}
        exit_code = _run([launcher, program, *command[1:]], environ, keep_stdout=keep_stdout)
        outcomes = _read(file)
    # The program's arguments may hold secrets; its name is enough.
    findings["command"] = {
        "program": Path(program).name,
        "exit_code": exit_code,
        "reported": outcomes is not None,
        "instrumented": sorted(name for name, outcome in (outcomes or {}).items() if outcome.get("state") in _PATCHED),
    }
    if exit_code != 0:
        findings["problems"].append(f"{Path(program).name} ended with exit code {exit_code}")
    if outcomes is None:
        findings["problems"].append("no process of the program reported: it never started Python, or was killed")
        return
    for name, outcome in outcomes.items():
        _take_in(findings, name, outcome)
        if name == named_functions.INSTRUMENTOR:
            # What the program has found out stands among the problems of the instrumentor.
            before = named_functions.problems(findings["functions"])
            findings["problems"] = [problem for problem in findings["problems"] if problem not in before]
            named_functions.take_in(findings["functions"], outcome)


def _find_program(program: str, advice: str) -> str:
    beside = str(Path(sys.executable).parent)
    path = shutil.which(program, path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))
    if path is None:
        raise CannotRun(f"{program}: no such program; {advice}")
    return path


def _run(command: Sequence[str], environ: dict[str, str], *, keep_stdout: bool) -> int:
    stdout = None if keep_stdout else sys.stderr
    with subprocess.Popen(command, env=environ, stdout=stdout) as process:
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # The terminal has told the program too: its own end is what we wait for.
                continue
            return 128 + signal.Signals(-code).value if code < 0 else code


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _take_in(findings: dict[str, Any], name: str, outcome: dict[str, str]) -> None:
    expected = findings["instrumentors"].setdefault(name, {"supports": "", "installed": ""})
    if outcome.get("state") == instrumentor_status.WAITING and expected.get("reason") == NOT_INSTALLED:
        # It waits for an import that cannot come.
        return
    expected["state"], expected["reason"] = str(outcome.get("state", "")), str(outcome.get("reason", ""))
    if expected["state"] in (instrumentor_status.DEGRADED, instrumentor_status.FAILED):
        findings["problems"].append(f"{name}: {expected['reason']}")
