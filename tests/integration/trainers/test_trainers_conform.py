"""Everything that the trainers record is in the registry: whole programs under ``opentelemetry-instrument``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import every_trainer
import pytest
from conformance.live_check import check
from runs import EXAMPLES, TIMEOUT, attributes, read_store

PROGRAM = Path(__file__).with_name("every_trainer_program.py")
OFTEN = ("trl.trainer.kto_trainer.KTOTrainer", "trl.trainer.grpo_trainer.GRPOTrainer")


def launch(directory, names):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environment |= {"PYTHONPATH": str(EXAMPLES), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment |= {"OTEL_RL_DATA_DIR": str(directory / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, str(PROGRAM)]
    done = subprocess.run(
        [*command, str(directory), *names],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment,
        cwd=directory,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "internal error" not in done.stderr
    [process] = read_store(directory / "data")
    return process


def _check(directory, names, algorithm):
    process = launch(directory, names)

    assert check(directory / "data") == []
    assert process.resource["rl.system.name"] == ("trl" if names else "transformers")
    assert process.resource.get("rl.algorithm") == algorithm
    assert process.resource["rl.role"] == "trainer"
    steps = Counter(span["name"] for span in process.spans)["rl.loop"]
    assert steps == 2 * len(names) + 6
    assert len({attributes(span)["rl.loop.iteration"] for span in process.spans if span["name"] == "rl.loop"}) == 6


def test_a_plain_trainer_conforms(tmp_path):
    _check(tmp_path, (), None)


@pytest.mark.parametrize("name", OFTEN)
def test_a_trainer_of_trl_conforms(tmp_path, name):
    if name not in every_trainer.trainer_classes():
        pytest.skip("not in this version of TRL")
    _check(tmp_path, (name,), name.rpartition(".")[2].removesuffix("Trainer").lower())


@pytest.mark.slow
def test_every_trainer_of_trl_conforms(tmp_path):
    names = [name for name in every_trainer.trainer_classes() if name not in every_trainer.SKIPPED]
    _check(tmp_path, names, "a2po")
