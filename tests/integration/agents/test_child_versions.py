"""Versions of the weights that answer in child processes of a rollout are in its row, and judged by the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_openai import CHAT
from support.own_command import otel_rl

pytest.importorskip("urllib3")
from child_versions_program import LEFT_OUT_AFTER, STEPS

PROGRAM = Path(__file__).with_name("child_versions_program.py")
TESTS = PROGRAM.parents[2]
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the program ran."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all"}
    path = os.pathsep.join(filter(None, [str(TESTS), kept.get("PYTHONPATH")]))
    environ = {**kept, **own, "PYTHONPATH": path}
    subprocess.run([LAUNCHER, sys.executable, PROGRAM], cwd=folder, env=environ, timeout=400, check=True)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """Lines of ``otel-rl trajectories`` by the id of the rollout."""
    return {
        row["rl.rollout.id"]: row
        for row in map(json.loads, otel_rl(folder, "trajectories", "store").stdout.splitlines())
    }


@pytest.mark.parametrize("where", ["process", "worker"])
def test_a_row_has_the_version_and_the_stop_reason_of_its_child(rows, where):
    for number in range(1, STEPS + 1):
        for name, version in (("current", number), ("left out", min(number, LEFT_OUT_AFTER))):
            row = rows[f"{where}, {name}, {number}"]
            assert row["rl.rollout.policy_version.min"] == row["rl.rollout.policy_version.max"] == version
            assert row["rl.rollout.engine_versions"] == [version]
            assert row["rl.rollout.stop_reason"] == CHAT["choices"][0]["finish_reason"]


def test_a_row_joins_the_versions_of_several_children(rows):
    row = rows["one child of each"]
    assert (row["rl.rollout.policy_version.min"], row["rl.rollout.policy_version.max"]) == (LEFT_OUT_AFTER, STEPS)
    assert row["rl.rollout.versions_behind"] == STEPS - LEFT_OUT_AFTER
    assert sorted(row["rl.rollout.engine_versions"]) == [LEFT_OUT_AFTER, STEPS]
    assert len(row["rl.rollout.engines"].split(", ")) == 2


def test_a_child_does_not_say_that_no_weights_are_newer(rows):
    assert "rl.rollout.versions_behind" not in rows["process, left out, 3"]
    assert rows["here"]["rl.rollout.versions_behind"] == 0


def test_the_report_names_the_engine_that_syncs_leave_out(folder, rows):
    told = json.loads(otel_rl(folder, "report", "--json", "store").stdout)
    left_out = rows["process, left out, 1"]["rl.rollout.engines"]
    [finding] = [one for one in told["findings"] if one["code"] == "stale_engine"]
    assert f"Engine {left_out} generated with old weights since step {LEFT_OUT_AFTER + 1}" in finding["text"]
    behind = {one["engine"]: one["behind"] for one in told["weight_versions"]}
    assert behind == {left_out: STEPS - LEFT_OUT_AFTER, rows["here"]["rl.rollout.engines"]: 0}
