"""The command ``otel-rl`` in the process of the tests: its imports take far longer than its work on a small run."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from otel_rl import cli
from otel_rl.core import settings

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ended(NamedTuple):
    """Status of the command and what it wrote."""

    status: int
    stdout: str
    stderr: str


def run(folder: Path, *arguments: object, environ: Mapping[str, str] | None = None) -> Ended:
    """Run ``otel-rl ARGUMENTS`` in the folder, with ``environ`` beside the variables of this process."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    settings.reset()
    try:
        with redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, environ or {}):
            status = cli.main([str(argument) for argument in arguments])
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        os.chdir(before)
        settings.reset()
    return Ended(status, out.getvalue(), err.getvalue())


def otel_rl(folder: Path, *arguments: object, status: int = 0) -> Ended:
    """Run ``otel-rl ARGUMENTS`` in the folder; it has to end with this status."""
    ended = run(folder, *arguments)
    assert ended.status == status, ended.stderr
    return ended
