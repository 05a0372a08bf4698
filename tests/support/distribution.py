"""Builds of this checkout's wheel and environments that it is installed into."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def find_uv() -> str:
    """The uv program; the test is skipped where there is none."""
    for candidate in (os.environ.get("UV"), shutil.which("uv"), Path(sys.executable).with_name("uv")):
        if candidate and Path(candidate).is_file():
            return str(candidate)
    pytest.skip("uv is not to be found: neither in $UV, nor on PATH, nor beside this interpreter")


def build_wheel(folder: Path) -> Path:
    """Build the wheel into `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def create_environment(folder: Path, *options: str) -> Path:
    """Create a virtual environment with this interpreter; returns its bin folder."""
    subprocess.run(
        [find_uv(), "venv", "--quiet", "--python", sys.executable, *options, folder], check=True, timeout=120
    )
    return folder / "bin"
