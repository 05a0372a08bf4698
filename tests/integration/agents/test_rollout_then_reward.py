"""A class that makes trajectories, then one that scores them: with the two variables alone a score joins its row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.own_command import otel_rl

PROGRAM = Path(__file__).with_name("processors") / "train.py"
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
NAMES = {
    "OTEL_RL_ROLLOUT_FUNCTIONS": "pipeline:RolloutProcessor.run",
    "OTEL_RL_REWARD_FUNCTIONS": "pipeline:RewardProcessor.run",
}


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    """What the program printed with and without us, its rows, and what standard error says of them."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all", **NAMES}

    def run(*command, environ=kept):
        return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=True)

    plain = run(sys.executable, PROGRAM)
    ours = run(LAUNCHER, sys.executable, PROGRAM, environ={**kept, **own})
    printed = otel_rl(folder, "trajectories", "store")
    return plain.stdout, ours, [json.loads(line) for line in printed.stdout.splitlines()], printed.stderr


def test_the_program_prints_the_same(recorded_run):
    plain, ours, *_ = recorded_run
    assert ours.stdout == plain


def test_each_score_is_in_the_row_of_its_sample(recorded_run):
    _, _, rows, said = recorded_run
    scores = [(row.get("rl.sample.id"), row["scores"]) for row in rows]
    name = "RewardProcessor.run"
    assert scores == [
        *[("1", {name: 0.2}), ("2", {name: 0.4})] * 2,
        (None, {name: 3.0, f"{name}/length": 1.0}),
        (None, {name: 4.0, f"{name}/length": 1.0}),
        *[(None, {name: 0.5})] * 2,
        ("7", {name: 1.4}),
        (None, {name: 0.5}),
        *[("8", {})] * 2,
    ]
    assert [row["rl.rollout.id"] for row in rows][6:8] == ["b-5", "b-6"]
    assert rows[9]["rl.rollout.id"] == "elsewhere"
    assert said == ""


def test_a_sample_id_of_several_rollouts_is_said(recorded_run):
    _, ours, *_ = recorded_run
    assert ours.stderr.count("several rollouts have the same sample_id") == 1
