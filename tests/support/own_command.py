"""The command ``otel-rl`` in the process of the tests: its imports take far longer than its work on a small run."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from otel_rl import cli
from otel_rl.core import settings


class Said(NamedTuple):
    """What the command wrote."""

    stdout: str
    stderr: str


def otel_rl(folder: Path, *arguments: object, status: int = 0) -> Said:
    """Run ``otel-rl ARGUMENTS`` in the folder; it has to end with this status."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    settings.reset()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.main([str(one) for one in arguments])
    finally:
        os.chdir(before)
        settings.reset()
    assert code == status, err.getvalue()
    return Said(out.getvalue(), err.getvalue())
