"""A wheel built from this checkout, and a fresh environment that it is installed into."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


def find_uv():
    for candidate in (os.environ.get("UV"), shutil.which("uv"), Path(sys.executable).with_name("uv")):
        if candidate and Path(candidate).is_file():
            return str(candidate)
    pytest.skip("uv is not to be found: neither in $UV, nor on PATH, nor beside this interpreter")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel and what it depends on, nothing else."""
    uv = find_uv()
    environment = tmp_path_factory.mktemp("installed")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True, timeout=120)
    command = [uv, "pip", "install", "--quiet", "--python", environment, "--constraint", CHECKOUT / "constraints.txt", wheel]
    subprocess.run(command, check=True, timeout=300)
    return environment / "bin"
