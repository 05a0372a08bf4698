"""Everything that the trainers record is in the registry: whole programs."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import every_trainer
import pytest
from conformance.live_check import check
from runs import attributes, read_store
from support import trl_runs

PROGRAM = Path(__file__).with_name("every_trainer_program.py")
TIMEOUT = 600
STEPS = 12
#: Run of one trainer -> its algorithm.
ALGORITHMS = {
    "sft": "sft",
    "dpo": "dpo",
    "kto": "kto",
    "reward": "reward_modeling",
    "grpo": "grpo",
    "transformers": None,
}


def _check(data, algorithm, steps):
    assert check(data) == []
    [process] = read_store(data)
    assert process.resource["rl.system.name"] == ("transformers" if algorithm is None else "trl")
    assert process.resource.get("rl.algorithm") == algorithm
    assert process.resource["rl.role"] == "trainer"
    assert Counter(span["name"] for span in process.spans)["rl.loop"] == steps
    return {attributes(span)["rl.loop.iteration"] for span in process.spans if span["name"] == "rl.loop"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_trainer_conforms(tmp_path_factory, name):
    iterations = _check(trl_runs.of_one_trainer(tmp_path_factory, name), ALGORITHMS[name], STEPS)
    assert iterations == set(range(1, STEPS + 1))


@pytest.mark.slow
def test_every_trainer_of_trl_conforms(tmp_path):
    names = [name for name in every_trainer.trainer_classes() if name not in every_trainer.SKIPPED]
    command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, PROGRAM, tmp_path, *names]
    own = {"OTEL_RL_DATA_DIR": str(tmp_path / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**trl_runs.environment(), **own},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "internal error" not in done.stderr
    # Two steps of each, and six of the plain one.
    assert len(_check(tmp_path / "data", "a2po", 2 * len(names) + 6)) == 6
