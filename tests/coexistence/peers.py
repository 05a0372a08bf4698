"""The other instrumentors, each in an environment of its own, and what a program records beside them."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from coexistence.programs import Expected

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONSTRAINTS = ROOT / "tests" / "constraints" / "latest.txt"
_UV = os.environ.get("UV", "uv")
_CLIENTS = ("openai", "langchain-openai", "langgraph")
#: Input tokens of the calls of ``program.py`` that are not 7.
_TOKENS = {"embeddings": 2, "responses": 5}
#: Some ask for their makers' servers otherwise, OpenAI's agents where they have a key.
_AT_HOME = {"TRACELOOP_TELEMETRY": "false", "HF_HUB_OFFLINE": "1"}
_NOT_GIVEN = ("OTEL_", "PYTHON", "TRACELOOP_", "OPENAI_")


@dataclass(frozen=True)
class Peer:
    """One or two instrumentors of others; a library with spans of its own has none. ``program``: see ``programs``."""

    name: str
    packages: tuple[str, ...]
    instrumentors: tuple[str, ...]
    program: str | None = None
    orders: tuple[str, ...] = ("after", "before")

    @property
    def modes(self) -> list[str]:
        """What the program is told for both to be active."""
        return [f"--ours-{order}" for order in self.orders]


def peers() -> list[Peer]:
    """Those of ``peers.toml``, in its order."""
    table = tomllib.loads((HERE / "peers.toml").read_text())
    return [
        Peer(name, **{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
        for name, row in table.items()
    ]


@dataclass(frozen=True)
class Outcome:
    """What was recorded of one call: scopes of its spans (``spans``: of models), and scope -> count of its metrics."""

    spans: tuple[tuple[str, int], ...]
    durations: tuple[tuple[str, int], ...]
    tokens: tuple[tuple[str, int], ...]
    agents: tuple[str, ...]
    tools: tuple[str, ...]
    #: What products have recorded in pipelines of their own.
    apart: int


@functools.cache
def _printed(peer: Peer, mode: str) -> list[str]:
    """Lines of the program's output, of which the last is ours."""
    arguments = [*peer.instrumentors, *(() if mode == "alone" else (mode,))]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_GIVEN)}
    kept |= {**_AT_HOME, "PYTHONPATH": str(HERE.parent)}
    program = ["program.py"] if peer.program is None else ["calls_program.py", peer.program]
    command = [python(peer), str(HERE / program[0]), *program[1:], *arguments]
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"capture_output": True, "text": True, "env": kept, "cwd": folder}
        done = subprocess.run(command, timeout=180, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def printed(peer: Peer, mode: str) -> list[str]:
    """What the program prints beside the outcomes; addresses have random ports."""
    return [re.sub(r"127\.0\.0\.1:\d+\S*", "", line) for line in _printed(peer, mode)[:-1]]


def outcomes(peer: Peer, mode: str) -> dict[str, Outcome]:
    """Call -> what is recorded of it."""
    return {
        call: Outcome(
            tuple((scope, tokens) for scope, tokens in found["spans"]),
            tuple(sorted(found["durations"].items())),
            tuple(sorted(found["tokens"].items())),
            tuple(found["agent"]),
            tuple(found["tool"]),
            found["apart"],
        )
        for call, found in json.loads(_printed(peer, mode)[-1]).items()
    }


def expected(peer: Peer, call: str) -> Expected:
    """What the call is, whoever records it."""
    if peer.program is None:
        return Expected(tokens=_TOKENS.get(call.partition(",")[0], 7))
    programs: dict[str, Expected] = importlib.import_module(f"coexistence.programs.{peer.program}").EXPECTED
    return programs[call]


def python(peer: Peer) -> Path:
    """The interpreter of its environment, which is made where it is not there."""
    base = os.environ.get("OTEL_RL_CACHE_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "otel-rl"
    )
    inputs = json.dumps([sys.version, str(ROOT), peer.packages, CONSTRAINTS.read_text()])
    folder = Path(base, "coexistence", f"{peer.name}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}").absolute()
    if not (folder / "complete").exists():
        _run(_UV, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", sys.executable, folder)
        install = (_UV, "pip", "install", "--quiet", "--python", folder, *_given(peer, folder / "constraints.txt"))
        _run(*install, *peer.packages, "--editable", ROOT)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def _given(peer: Peer, constraints: Path) -> tuple[str | Path, ...]:
    """What is installed beside a peer; one with a program of its own names its client, which pins what it needs."""
    if peer.program is not None:
        return ()
    pinned = {package.partition("==")[0] for package in peer.packages}
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if line.partition("==")[0] not in pinned]
    constraints.write_text("\n".join(lines))
    return ("--constraint", constraints, *_CLIENTS)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)
