"""The other instrumentors, each in an environment of its own, and what a program records beside them."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONSTRAINTS = ROOT / "tests" / "constraints" / "latest.txt"
_UV = os.environ.get("UV", "uv")
_CLIENTS = ("openai", "langchain-openai", "langgraph")


@dataclass(frozen=True)
class Peer:
    """One or two instrumentors of others."""

    name: str
    packages: tuple[str, ...]
    instrumentors: tuple[str, ...]


def peers() -> list[Peer]:
    """Those of ``peers.toml``, in its order."""
    table = tomllib.loads((HERE / "peers.toml").read_text())
    return [Peer(name, tuple(row["packages"]), tuple(row["instrumentors"])) for name, row in table.items()]


@dataclass(frozen=True)
class Outcome:
    """What was recorded of one call: scopes of its spans, and scope -> count of its metrics."""

    spans: tuple[tuple[str, int], ...]
    durations: tuple[tuple[str, int], ...]
    tokens: tuple[tuple[str, int], ...]


@functools.cache
def outcomes(peer: Peer, mode: str) -> dict[str, Outcome]:
    """Call -> what is recorded of it."""
    arguments = [*peer.instrumentors, *(() if mode == "alone" else (mode,))]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PYTHON", "TRACELOOP_"))}
    # One of them asks for its maker's server otherwise.
    kept |= {"TRACELOOP_TELEMETRY": "false", "PYTHONPATH": str(HERE.parent)}
    command = [python(peer), str(HERE / "program.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=kept, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return {
        call: Outcome(
            tuple((scope, tokens) for scope, tokens in found["spans"]),
            tuple(sorted(found["durations"].items())),
            tuple(sorted(found["tokens"].items())),
        )
        for call, found in json.loads(done.stdout.splitlines()[-1]).items()
    }


def python(peer: Peer) -> Path:
    """The interpreter of its environment, which is made where it is not there."""
    base = os.environ.get("OTEL_RL_CACHE_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "otel-rl"
    )
    inputs = json.dumps([sys.version, str(ROOT), peer.packages, CONSTRAINTS.read_text()])
    folder = Path(base, "coexistence", f"{peer.name}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}").absolute()
    if not (folder / "complete").exists():
        _run(_UV, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", sys.executable, folder)
        constraints = folder / "constraints.txt"
        pinned = {package.partition("==")[0] for package in peer.packages}
        lines = [line for line in CONSTRAINTS.read_text().splitlines() if line.partition("==")[0] not in pinned]
        constraints.write_text("\n".join(lines))
        install = (_UV, "pip", "install", "--quiet", "--python", folder, "--constraint", constraints)
        _run(*install, *peer.packages, *_CLIENTS, "--editable", ROOT)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)
