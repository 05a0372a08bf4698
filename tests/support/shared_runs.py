"""Folders that several test modules read, made once per test session by the first process that asks.

A recorded run of TRL, of an agent or of two ranks costs seconds of CPU, and a fixture of pytest lives in one process
of pytest-xdist. :func:`once` makes a folder that all processes of the session read. A test that changes it copies it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

#: Beside the folder of a name: what its maker raised; empty if it is made.
_OUTCOME = ".outcome"


class MakerError(AssertionError):
    """The maker of a folder failed; raised in each test that reads the folder."""


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder ``name`` of this session, which ``make`` has filled; a maker that fails is not run again."""
    folder = _shared(factory) / name
    outcome = folder.with_name(f"{name}{_OUTCOME}")
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outcome.exists():
            outcome.write_text(_outcome_of(make, folder), encoding="utf-8")
    if failure := outcome.read_text(encoding="utf-8"):
        raise MakerError(f"{name} could not be made:\n{failure}")
    return folder


def _shared(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of the session share; pytest-xdist gives each a subfolder of it."""
    own = factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared-runs"
    shared.mkdir(exist_ok=True)
    return shared


def _outcome_of(make: Callable[[Path], object], folder: Path) -> str:
    # A maker that was interrupted may have left half of it.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        make(folder)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{traceback.format_exc()}{_text(error.stdout)}{_text(error.stderr)}"
    except Exception:  # noqa: BLE001 - its readers raise it
        return traceback.format_exc()
    return ""


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
