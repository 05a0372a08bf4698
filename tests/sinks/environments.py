"""Get the servers that tests/sinks sends to, each into a place of its own in a folder; what is there stays.

Run it as `python environments.py FOLDER`. FOLDER/phoenix and FOLDER/mlflow are environments, FOLDER/zipkin.jar is
Zipkin, which needs Java and Maven.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: Environment -> its only requirement.
PACKAGES = {"phoenix": "arize-phoenix==20.26.1", "mlflow": "mlflow==3.17.2"}
PYTHON = "3.11"
ZIPKIN = "io.zipkin:zipkin-server:3.6.1:jar:exec"


def environment(folder: Path, name: str, uv: str) -> None:
    """Make one environment."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", PYTHON, folder / name], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, PACKAGES[name]], check=True)


def zipkin(folder: Path) -> None:
    """Get Zipkin from Maven's registry."""
    if (folder / "zipkin.jar").exists():
        return
    copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ZIPKIN}", f"-DoutputDirectory={folder}"]
    subprocess.run(copy, check=True)
    next(folder.glob("zipkin-server-*.jar")).rename(folder / "zipkin.jar")


def main(arguments: list[str]) -> None:
    """Get all of them."""
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not to be found: name it in UV, or run `make test-sinks`")
    began = time.monotonic()
    for name in PACKAGES:
        environment(folder, name, uv)
    zipkin(folder)
    print(f"servers of the sinks: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
