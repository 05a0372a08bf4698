"""What child processes of a rollout do counts in its row, by every way to start one."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_openai import USAGE, FakeOpenAI
from support.own_command import otel_rl

pytest.importorskip("urllib3")
PROGRAM = Path(__file__).with_name("pooled_rollouts.py")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the program ran."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    with FakeOpenAI() as server:
        own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all"}
        environ = {**kept, **own, "MODEL_SERVER": server.base_url}
        subprocess.run([LAUNCHER, sys.executable, PROGRAM], cwd=folder, env=environ, timeout=240, check=True)
    return folder


@pytest.fixture(scope="module")
def printed(folder):
    """Lines of ``otel-rl trajectories`` by the id of the rollout, and what it says of the others."""
    done = otel_rl(folder, "trajectories", "store")
    return {row["rl.rollout.id"]: row for row in map(json.loads, done.stdout.splitlines())}, done.stderr


#: Model calls of the rollout itself and of its children, and the scores of these.
TRUTH = {
    **{f"own pool, {method}": (1, 2, {"child": 3}) for method in ("fork", "spawn")},
    **{f"process, {method}": (0, 1, {"child": 4}) for method in ("fork", "spawn")},
    **{f"shared pool, {method}, 1": (0, 1, {"child": 1}) for method in ("fork", "spawn")},
    **{f"shared pool, {method}, 2": (0, 2, {"child": 4, "judge": 0.5}) for method in ("fork", "spawn")},
    **{f"map, {method}": (0, 2, {"child": 3}) for method in ("fork", "spawn")},
    **{f"apply, {method}": (0, 2, {"child": 7}) for method in ("fork", "spawn")},
    **{f"imap, {method}": (0, 2, {"child": 11}) for method in ("fork", "spawn")},
    **{f"joblib, {number}": (0, 6 * number, {"child": float(6 * number)}) for number in (1, 2)},
    "subprocess": (0, 1, {"child": 16}),
    "os.fork": (1, 1, {"child": 8, "found": 2, "progress": 1}),
}


TRUTH_OF_SCORES = {name: scores for name, (_, _, scores) in TRUTH.items()}


@pytest.mark.parametrize("name", TRUTH)
def test_calls_tokens_tools_and_scores_of_children_are_in_the_row(printed, name):
    rows, _ = printed
    own, of_children, scores = TRUTH[name]
    row, calls = rows[name], own + of_children
    assert (row["rl.rollout.model_calls"], row["rl.rollout.turns"]) == (calls, calls)
    assert row["rl.rollout.input_tokens"] == calls * USAGE["prompt_tokens"]
    assert row["rl.rollout.output_tokens"] == calls * USAGE["completion_tokens"]
    assert row["rl.rollout.tool_calls"] == of_children
    assert row["rl.rollout.child_calls"] == 2 * of_children
    assert row["scores"] == scores
    assert row["rl.rollout.reward"] == sum(scores.values())
    assert row["metrics"] == {"hops": of_children}


def test_no_row_has_what_was_done_outside_of_all_rollouts(printed):
    rows, said = printed
    assert set(rows) == set(TRUTH)
    assert said == "otel-rl trajectories: 1 later score or judgement names no rollout of this run.\n"


def test_a_forked_child_scores_the_turn_that_it_has_found_and_none_after_turns_of_its_own(printed):
    rows, _ = printed
    assert rows["os.fork"]["rl.rollout.turn_rewards"] == [2.0]


def test_the_report_and_the_tables_have_the_same(folder, printed):
    rows, _ = printed
    told = json.loads(otel_rl(folder, "report", "--json", "store").stdout)["trajectories"]
    assert {row["rl.rollout.id"]: row["scores"] for row in told["rows"]} == TRUTH_OF_SCORES
    [page] = (folder / "store").rglob("report.html")
    assert "1 later score or judgement names no rollout of this run." in page.read_text()
    otel_rl(folder, "export", "--csv", "tables", "store")
    with (folder / "tables" / "trajectories.csv").open(newline="") as file:
        table = {row["rl.rollout.id"]: float(row["rl.rollout.reward"]) for row in csv.DictReader(file)}
    assert table == {name: row["rl.rollout.reward"] for name, row in rows.items()}
