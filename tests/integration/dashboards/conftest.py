"""The real Prometheus and promtool for the tests of this folder: built once, cached outside the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from promtool_rules import Promtool

ROOT = Path(__file__).resolve().parents[3]
_BUILD_SECONDS = 1800


@pytest.fixture(scope="session")
def prometheus_programs() -> Path:
    """Folder of ``prometheus`` and ``promtool``; the first build on a machine takes some minutes."""
    command = [sys.executable, ROOT / "compose" / "backends" / "build.py", "prometheus"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_BUILD_SECONDS, check=True)
    return Path(built.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def otelcol_rl() -> Path:
    """The collector; the first build on a machine takes some minutes."""
    command = [sys.executable, ROOT / "otelcol-builder" / "build.py"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_BUILD_SECONDS, check=True)
    return Path(built.stdout.splitlines()[-1])


@pytest.fixture
def promtool(prometheus_programs: Path, tmp_path: Path) -> Promtool:
    return Promtool(prometheus_programs / "promtool", tmp_path)
