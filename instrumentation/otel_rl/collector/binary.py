"""The program otelcol-rl: where it is, and what it says about a configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.collector.errors import Refused
from otel_rl.core import packaged_data

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "OTEL_RL_COLLECTOR_BINARY"
HOW_TO_GET_IT = f"build it with `otel-rl collector build`, or name it in {VARIABLE}"


def find_program(environ: Mapping[str, str]) -> Path | None:
    """Find the program: what OTEL_RL_COLLECTOR_BINARY names, else one on PATH, else the one in the build cache.

    Raises:
        Refused: the variable names something that cannot be run.
    """
    named = environ.get(VARIABLE, "").strip()
    if named:
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise Refused(f"{VARIABLE}={named} is no program; correct or unset it")
        return Path(named)
    on_path = shutil.which("otelcol-rl", path=environ.get("PATH"))
    return Path(on_path) if on_path else _built()


def build() -> int:
    """Build from the packaged manifest with progress on stderr and the program's path on stdout; the exit code."""
    return subprocess.run([sys.executable, _build_script()], check=False).returncode


def validate(program: Path, configuration: Path) -> str:
    """Run ``otelcol-rl validate`` on a configuration file; return its error text, or ""."""
    command = [str(program), "validate", "--config", str(configuration)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}; {HOW_TO_GET_IT}"
    except subprocess.TimeoutExpired:
        return f"{program} validate does not end; {HOW_TO_GET_IT}"
    if answer.returncode == 0:
        return ""
    said = [line for line in answer.stderr.splitlines() if not re.match(r"\d{4}/\d\d/\d\d |\d{4}-\d\d-\d\dT", line)]
    return " ".join(" ".join(said).split()) or f"exit code {answer.returncode}"


def _built() -> Path | None:
    answer = subprocess.run(
        [sys.executable, "-S", _build_script(), "--find"], capture_output=True, text=True, timeout=30, check=False
    )
    lines = answer.stdout.splitlines()
    return Path(lines[-1]) if answer.returncode == 0 and lines else None


def _build_script() -> Path:
    try:
        return packaged_data.path("otelcol-builder") / "build.py"
    except packaged_data.MissingDataError as error:
        raise Refused(str(error)) from None
