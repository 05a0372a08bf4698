"""The environment and the unpacked tests of a suite, both kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hosts.suites import CONSTRAINTS, ROOT, python_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts.suites import Suite

UV = os.environ.get("UV", "uv")


def cache_folder() -> Path:
    """Where everything of this comparison is kept between runs."""
    base = os.environ.get("OTEL_RL_CACHE_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "otel-rl"
    )
    folder = Path(base, "hosts").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(suite: Suite) -> Path:
    """The ``bin`` folder of an environment with the suite's library, its test requirements and this checkout's pack."""
    constraints = _constraints(suite)
    inputs = [python_version(), str(ROOT), suite.distribution, suite.requirements, constraints]
    inputs.append((ROOT / "pyproject.toml").read_text())
    folder = cache_folder() / f"{suite.name}-{_digest(inputs)}"
    with _built_once(folder) as needed:
        if needed:
            _install(suite, folder, constraints)
    return folder / "bin"


def source(suite: Suite, python: Path) -> Path:
    """The folder with the suite's tests; copy it, since tests write into it."""
    if suite.source != "sdist":
        return Path(__file__).with_name(suite.source)
    folder = cache_folder() / f"{suite.distribution}-{suite.version}-{_digest(suite.remove)}"
    with _built_once(folder) as needed:
        if needed:
            _unpack(suite, python, folder)
    return folder


def _digest(inputs: object) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


def _constraints(suite: Suite) -> str:
    lines = CONSTRAINTS.read_text().splitlines()
    return "\n".join(line for line in lines if line.partition("==")[0] not in suite.unconstrained) + "\n"


@contextmanager
def _built_once(folder: Path) -> Iterator[bool]:
    """Yield True to the one process that has to fill ``folder``; what a killed one left there is removed first."""
    complete = folder.with_name(f"{folder.name}.complete")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        needed = not complete.exists() or not folder.exists()
        if needed:
            shutil.rmtree(folder, ignore_errors=True)
        yield needed
        complete.touch()


def _install(suite: Suite, folder: Path, constraints: str) -> None:
    print(f"{suite.name}: installing into {folder}", file=sys.stderr, flush=True)
    # With pip, which can download a source distribution.
    _run(UV, "venv", "--quiet", "--seed", "--no-python-downloads", "--python", sys.executable, folder)
    file = folder / "constraints.txt"
    file.write_text(constraints)
    wanted: list[str | Path] = [f"{suite.distribution}=={suite.version}", *suite.requirements, "--editable", ROOT]
    _run(UV, "pip", "install", "--quiet", "--python", folder, "--constraint", file, *wanted)


def _unpack(suite: Suite, python: Path, folder: Path) -> None:
    folder.mkdir()
    requirement = f"{suite.distribution}=={suite.version}"
    download = ("download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
    _run(python, "-m", "pip", *download, "--dest", folder, requirement)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)  # noqa: S202 - a distribution of the index that suites.toml names
    archive.unlink()
    (top,) = folder.iterdir()
    for child in top.iterdir():
        child.rename(folder / child.name)
    top.rmdir()
    for path in suite.remove:
        shutil.rmtree(folder / path)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)
