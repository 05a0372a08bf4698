"""The role of a model call goes with the rollout into child processes, by every way to start one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_openai import USAGE, FakeOpenAI
from support.own_command import otel_rl

pytest.importorskip("urllib3")
from child_roles_program import OF_TOOLS, WAYS

PROGRAM = Path(__file__).with_name("child_roles_program.py")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")

#: Calls in the children of a way.
CALLS = {name: 2 if name.startswith(("executor", "pool")) else 1 for name in WAYS}
#: Calls of the policy, of judges and of tools.
TRUTH = {
    **{f"judge, {name}": (1, calls, None) for name, calls in CALLS.items()},
    **{f"tool, {name}": (1, None, CALLS[name]) for name in OF_TOOLS},
    **{f"one worker, {method}": (1, 1, 1) for method in ("fork", "spawn")},
    **{f"the same worker, {method}": (1, None, None) for method in ("fork", "spawn")},
    "a judge in a child of a tool": (None, 1, None),
    "its parent": (None, None, None),
    "a rollout in a child of a tool": (1, None, None),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Lines of ``otel-rl trajectories`` by the id of the rollout."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    with FakeOpenAI() as server:
        own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all"}
        environ = {**kept, **own, "MODEL_SERVER": server.base_url}
        subprocess.run([LAUNCHER, sys.executable, PROGRAM], cwd=folder, env=environ, timeout=400, check=True)
    printed = otel_rl(folder, "trajectories", "store").stdout
    return {row["rl.rollout.id"]: row for row in map(json.loads, printed.splitlines())}


@pytest.mark.parametrize("name", TRUTH)
def test_a_call_in_a_child_has_the_role_of_what_has_started_it(rows, name):
    policy, judges, tools = TRUTH[name]
    row = rows[name]
    assert (row.get("rl.rollout.turns"), row.get("rl.rollout.model_calls")) == (policy, policy)
    assert row.get("rl.rollout.judge_calls") == judges
    assert row.get("rl.rollout.tool_model_calls") == tools
    assert row.get("rl.rollout.output_tokens") == (policy and policy * USAGE["completion_tokens"])
