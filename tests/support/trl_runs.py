"""Runs of TRL's trainers on the CPU, made once in a test session: one process imports TRL and forks for all of them.

Beside these there is one run that ``opentelemetry-instrument`` starts, on two ranks: its hooks come before the imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support import forked_programs
from support.forked_programs import Program
from support.shared_runs import once

if TYPE_CHECKING:
    import pytest

_TESTS = Path(__file__).parents[1]
_TRAINERS = _TESTS / "integration" / "trainers"
_ONE_TRAINER = _TESTS / "integration" / "report" / "trainer_page_program.py"
_SEEDED = _TRAINERS / "seeded_program.py"
_PATH = os.pathsep.join(map(str, (_TESTS.parent / "examples", _TRAINERS)))
_TIMEOUT = 300
#: Steps of the seeded program, which two ranks run.
STEPS = 4
#: Name of the run of one trainer -> arguments of its program.
TRAINERS = {
    "sft": ("SFTTrainer",),
    "dpo": ("DPOTrainer",),
    "kto": ("KTOTrainer",),
    "reward": ("RewardTrainer",),
    "grpo": ("GRPOTrainer", "rare"),
    "transformers": ("Trainer",),
}
_MODULES = (
    "torch",
    "torch._dynamo",
    "datasets",
    *(f"trl:{name}" for name, *_ in TRAINERS.values() if name != "Trainer"),
)


class SeededRun(NamedTuple):
    """What two ranks printed and computed; below ``data`` is what was recorded, if they were watched."""

    stdout: str
    stderr: str
    results: list[dict[str, Any]]
    data: Path


def of_one_trainer(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the data directory of the run of one trainer."""
    program = _programs(once(factory, "trl", _make))[name]
    program.check()
    assert "internal error" not in program.output("stderr")
    return Path(program.folder) / "data"


def plain(factory: pytest.TempPathFactory) -> SeededRun:
    """Return the run of two ranks that nobody watches."""
    folder = once(factory, "trl", _make)
    ranks = [_programs(folder)[f"rank {rank}"] for rank in (0, 1)]
    for rank in ranks:
        rank.check()
    stdout, stderr = ("".join(rank.output(stream) for rank in ranks) for stream in ("stdout", "stderr"))
    return SeededRun(stdout, stderr, _results(folder / "seeded"), folder / "seeded" / "data")


def watched(factory: pytest.TempPathFactory) -> SeededRun:
    """Return the run of two ranks under `opentelemetry-instrument torchrun`."""
    folder = once(factory, "trl-watched", _watch)
    stdout, stderr = ((folder / stream).read_text() for stream in ("stdout", "stderr"))
    return SeededRun(stdout, stderr, _results(folder), folder / "data")


def environment() -> dict[str, str]:
    """Return the variables of programs that train: none of ours, one thread, no downloads."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return {**kept, "PYTHONPATH": _PATH, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def _watch(folder: Path) -> None:
    scripts = Path(sys.executable).parent
    command = [scripts / "opentelemetry-instrument", scripts / "torchrun", "--nproc-per-node=2", "--standalone"]
    own = {"OTEL_RL_DATA_DIR": str(folder / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    done = subprocess.run(
        [*command, _SEEDED, str(STEPS), folder],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        env={**environment(), **own},
        cwd=folder,
        check=True,
    )
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)


def _make(folder: Path) -> None:
    (folder / "seeded").mkdir()
    forked_programs.run(_MODULES, list(_programs(folder).values()), environment())


def _programs(folder: Path) -> dict[str, Program]:
    """Return the programs that share their imports, by their names."""
    found = {}
    for name, arguments in TRAINERS.items():
        own = folder / name
        variables = {"OTEL_RL_DATA_DIR": str(own / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
        found[name] = Program([str(_ONE_TRAINER), str(own), *arguments], str(own), variables)
    seeded = [str(_SEEDED), str(STEPS), str(folder / "seeded")]
    ranks = forked_programs.ranks(seeded, folder, {}, is_recorded=False)
    return {**found, **{f"rank {number}": rank for number, rank in enumerate(ranks)}}


def _results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"result-{rank}.json").read_text()) for rank in (0, 1)]
