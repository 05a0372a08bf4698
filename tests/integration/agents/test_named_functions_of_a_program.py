"""An unmodified loop of a user's own, under ``opentelemetry-instrument`` with the names of its functions only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.report.core.trajectory_rows import rows
from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("own_loop") / "train.py"
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
NAMES = {
    "OTEL_RL_ROLLOUT_FUNCTIONS": "sorter.agent:Agent.run",
    "OTEL_RL_REWARD_FUNCTIONS": "sorter.rewards:correct,sorter.rewards:Judge",
}
#: In the arguments of a trajectory, and in the words of the judge and of an exception.
TEXTS = ("777001", "looked at", "secret-prompt", "judge gave up")


def run(folder, *launcher, **environ):
    """What the program printed, standard error, and what it recorded."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [*launcher, sys.executable, PROGRAM],
        cwd=folder,
        env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return done.stdout, done.stderr


def instrumented(folder, **environ):
    out, err = run(folder, LAUNCHER, **NAMES, **environ)
    return out, err, list(Reader(find_run(folder / "store", None)).records())


def everything(folder):
    return "".join(file.read_text() for file in (folder / "store").rglob("*.jsonl"))


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    """What the program printed, standard error, its records and all that was written; without content."""
    folder = tmp_path_factory.mktemp("run")
    return *instrumented(folder), everything(folder)


def test_rewards_and_status_are_in_the_records_and_no_text_is_anywhere(recorded_run):
    out, err, records, written = recorded_run
    seen = json.loads(out)
    assert "degraded" not in err
    found = [row for one in records if getattr(one, "event", "") == "rl.trajectories" for row in rows(one)]
    statuses = [row.get("rl.rollout.status") for row in found]
    assert len(found) == len(seen) == 12
    assert (statuses.count("finished"), statuses.count("failed"), statuses.count("cancelled")) == (8, 2, 2)
    finished = [row.get("rl.rollout.reward") for row in found if row.get("rl.rollout.status") == "finished"]
    assert sorted(finished) == sorted(one for one in seen if isinstance(one, float))
    assert "rl.rollout.input" not in written
    assert [text for text in TEXTS if text in written] == []


def test_the_program_prints_the_same_as_without_us(recorded_run, tmp_path):
    assert run(tmp_path)[0] == recorded_run[0]


def test_each_reward_function_is_a_span_of_its_rollout_with_its_outcome(recorded_run):
    spans = [one for one in recorded_run[2] if hasattr(one, "parent_id")]
    rollouts = {one.span_id: one for one in spans if one.name == "rl.rollout"}
    rewards = [one for one in spans if one.name == "rl.reward"]
    assert len(rollouts) == 12
    assert {one.attributes["rl.reward.name"] for one in rewards} == {"correct", "Judge"}
    assert len(rewards) == 16
    assert all(one.parent_id in rollouts for one in rewards)
    assert [one.attributes["error.type"] for one in rewards if "error.type" in one.attributes] == ["TimeoutError"] * 2


def test_with_content_arguments_and_results_can_be_read(tmp_path):
    _, _, records = instrumented(tmp_path, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_ONLY")
    rollouts = [one for one in records if getattr(one, "name", "") == "rl.rollout"]
    inputs = [json.loads(one.attributes["rl.rollout.input"]) for one in rollouts]
    assert {"numbers": [777001, 777002, 777003]} in inputs
    assert sum("rl.rollout.output" in one.attributes for one in rollouts) == 8
    judged = [one.attributes for one in records if getattr(one, "name", "") == "rl.reward"]
    assert any("looked at" in one.get("rl.reward.output", "") for one in judged)
    # Messages of exceptions are no content that anybody asked for.
    assert "secret-prompt" not in everything(tmp_path)


def test_names_that_do_not_fit_are_said_and_leave_the_program_alone(tmp_path, recorded_run):
    names = {"OTEL_RL_REWARD_FUNCTIONS": "sorter.rewards:corect", "OTEL_RL_ROLLOUT_FUNCTIONS": "sorter.missing:run"}
    out, err = run(tmp_path, LAUNCHER, **names)
    assert out == recorded_run[0]
    assert "OTEL_RL_REWARD_FUNCTIONS: sorter.rewards:corect is missing: sorter.rewards has no corect" in err
    assert "module sorter.missing was not imported" in err
