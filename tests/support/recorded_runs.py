"""Small real runs: programs under `opentelemetry-instrument`, each of which ends in another way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Escape sequences of a terminal, the HTML of a script, a second line, a change of direction.
HOSTILE = "\x1b[31mred\x1b[0m <script>alert(1)</script>\nsecond line \x9b2J \u202eflipped"

_PROGRAM = """
import logging, os, sys
import otel_rl
from opentelemetry import metrics, trace
from opentelemetry._logs import get_logger_provider

logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])
log = logging.getLogger("trainer")
for number in range(1, 6):
    with otel_rl.step(number):
        otel_rl.metric("reward", number / 10)
        otel_rl.metric("loss", 1 / number)
    log.info("step %d of rank %s", number, os.environ.get("RANK"))
for provider in (trace.get_tracer_provider(), metrics.get_meter_provider(), get_logger_provider()):
    provider.force_flush()
print("stepped", flush=True)
"""
_WAYS = {
    "good": "",
    "failing": "log.error('about to fail: %s', {hostile!r})\nraise RuntimeError({hostile!r})",
    "waiting": "sys.stdin.read()",
}


def begin(folder: Path, run: str, way: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a program that makes five steps, delivers them, says ``stepped``, and then does what its ``way`` says."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    ours = {
        "OTEL_RL_DATA_DIR": str(folder),
        "OTEL_RL_RUN_ID": run,
        "OTEL_RL_QUIET": "true",
        "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }
    command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "-c"]
    return subprocess.Popen(
        [*command, _PROGRAM + _WAYS[way].format(hostile=HOSTILE)],
        env=clean | ours | dict(environ or {}),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def record(folder: Path, run: str, way: str, environ: Mapping[str, str] | None = None) -> Path:
    """Run such a program to its end; the folder of the run."""
    begin(folder, run, way, environ).communicate()
    return folder / run


def wait_until_stepped(process: subprocess.Popen[str]) -> None:
    """Return when the program has delivered its steps."""
    assert process.stdout is not None
    assert process.stdout.readline() == "stepped\n"
