"""An unmodified loop of a user's own, recorded with the names of its functions only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import forked_programs
from support.forked_programs import Program
from support.reward_readers import rows

from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("own_loop") / "train.py"
NAMES = {
    "OTEL_RL_ROLLOUT_FUNCTIONS": "sorter.agent:Agent.run",
    "OTEL_RL_REWARD_FUNCTIONS": "sorter.rewards:correct,sorter.rewards:Judge",
}
#: In the arguments of a trajectory, and in the words of the judge and of an exception.
TEXTS = ("777001", "looked at", "secret-prompt", "judge gave up")


WRONG_NAMES = {
    "OTEL_RL_REWARD_FUNCTIONS": "sorter.rewards:corect",
    "OTEL_RL_ROLLOUT_FUNCTIONS": "sorter.missing:run",
}
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}


class Run(NamedTuple):
    """What the program printed, standard error, its records and all that was written."""

    out: str
    err: str
    records: list[Any]
    written: str

    @classmethod
    def of(cls, program: Program) -> Run:
        program.check()
        store = Path(program.folder) / "store"
        records = list(Reader(find_run(store, None)).records()) if program.is_recorded else []
        written = "".join(file.read_text() for file in store.rglob("*.jsonl"))
        return cls(program.output("stdout"), program.output("stderr"), records, written)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of the program: as named, without us, with content, and with names that do not fit."""
    folder = tmp_path_factory.mktemp("runs")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"}
    variables = {"named": NAMES, "plain": {}, "content": {**NAMES, **CONTENT}, "wrong names": WRONG_NAMES}
    programs = {
        name: Program([str(PROGRAM)], str(folder / name), {**own, **ours}, is_recorded=bool(ours))
        for name, ours in variables.items()
    }
    forked_programs.run(["torch", "torch._dynamo"], list(programs.values()), kept)
    return {name: Run.of(program) for name, program in programs.items()}


def test_rewards_and_status_are_in_the_records_and_no_text_is_anywhere(runs):
    out, err, records, written = runs["named"]
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


def test_the_program_prints_the_same_as_without_us(runs):
    assert runs["plain"].out == runs["named"].out


def test_each_reward_function_is_a_span_of_its_rollout_with_its_outcome(runs):
    spans = [one for one in runs["named"].records if hasattr(one, "parent_id")]
    rollouts = {one.span_id: one for one in spans if one.name == "rl.rollout"}
    rewards = [one for one in spans if one.name == "rl.reward"]
    assert len(rollouts) == 12
    assert {one.attributes["rl.reward.name"] for one in rewards} == {"correct", "Judge"}
    assert len(rewards) == 16
    assert all(one.parent_id in rollouts for one in rewards)
    assert [one.attributes["error.type"] for one in rewards if "error.type" in one.attributes] == ["TimeoutError"] * 2


def test_with_content_arguments_and_results_can_be_read(runs):
    records = runs["content"].records
    rollouts = [one for one in records if getattr(one, "name", "") == "rl.rollout"]
    inputs = [json.loads(one.attributes["rl.rollout.input"]) for one in rollouts]
    assert {"numbers": [777001, 777002, 777003]} in inputs
    assert sum("rl.rollout.output" in one.attributes for one in rollouts) == 8
    judged = [one.attributes for one in records if getattr(one, "name", "") == "rl.reward"]
    assert any("looked at" in one.get("rl.reward.output", "") for one in judged)
    # Messages of exceptions are no content that anybody asked for.
    assert "secret-prompt" not in runs["content"].written


def test_names_that_do_not_fit_are_said_and_leave_the_program_alone(runs):
    out, err, *_ = runs["wrong names"]
    assert out == runs["plain"].out
    assert "OTEL_RL_REWARD_FUNCTIONS: sorter.rewards:corect is missing: sorter.rewards has no corect" in err
    assert "module sorter.missing was not imported" in err
