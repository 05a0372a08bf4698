"""Make the environments of the systems that people train with, each in a folder of its own; what is there stays.

Run it as `python environments.py FOLDER [SYSTEM ...]`. FOLDER/SYSTEM/env is the environment, this checkout installed
in it, and FOLDER/models has what the programs train. It prints how long each took and how much of the disk is left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: System -> file of its packages.
LOCKS = {
    "verl": HERE / "verl" / "lock.txt",
    "skyrl": HERE / "skyrl" / "lock.txt",
    "tinker": HERE / "tinker" / "lock.txt",
    "tinker-server": HERE / "tinker" / "server_lock.txt",
}
#: What a system needs beside its own environment.
BESIDE = {"tinker": ("tinker-server",)}
PYTHON = "3.12"


def make(folder: Path, system: str, uv: str) -> None:
    """Make one environment."""
    environment = folder / system / "env"
    python = environment / "bin" / "python"
    began = time.monotonic()
    if not python.exists():
        environment.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([uv, "venv", "--quiet", "--python", PYTHON, environment], check=True)
    packages = ["--requirements", LOCKS[system], "--editable", ROOT, "pytest", "pytest-asyncio"]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    if not (folder / "models").exists():
        subprocess.run([python, HERE / "models.py", folder / "models"], check=True)
    left = shutil.disk_usage(folder).free / 1e9
    print(f"{system}: {time.monotonic() - began:.0f} s, {left:.0f} GB of the disk left", flush=True)


def main(arguments: list[str]) -> None:
    """Make those that are named, or all."""
    folder, *systems = arguments
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not to be found: name it in UV, or run `make test-systems`")
    named = [one for system in systems for one in (system, *BESIDE.get(system, ()))]
    for system in named or LOCKS:
        make(Path(folder).absolute(), system, uv)


if __name__ == "__main__":
    main(sys.argv[1:])
