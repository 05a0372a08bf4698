"""One rollout in five fails: the zero that it gets is marked, and what that does to rewards and advantages is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support.fake_openai import FakeOpenAI
from support.mcp_sessions import http_server
from support.reward_readers import rows

from otel_rl.report import write_report
from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

pytest.importorskip("mcp")
PROGRAM = Path(__file__).with_name("suspect_rewards_program.py")
TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and the ids of the rollouts that were made to fail, by kind."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    path = os.pathsep.join(filter(None, [str(TESTS), kept.get("PYTHONPATH")]))
    with FakeOpenAI() as model, http_server() as tools:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("opentelemetry-instrument"),
                sys.executable,
                PROGRAM,
                model.base_url,
                tools,
            ],
            cwd=folder,
            env={**kept, "PYTHONPATH": path, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
    return folder / "store", json.loads(done.stdout.splitlines()[-1])


def test_zeros_after_a_failure_are_marked_and_others_are_not(run):
    folder, injected = run
    found = {}
    for record in Reader(find_run(folder, None)).records():
        if getattr(record, "event", "") == "rl.trajectories":
            found |= {row.get("rl.rollout.id"): row for row in rows(record)}
    assert len(found) == 120
    assert len(injected) == 7
    failed = {name for names in injected.values() for name in names}
    zeros = {name for name, row in found.items() if row.get("rl.rollout.reward") == 0}
    marked = {name for name, row in found.items() if row.get("rl.rollout.suspect")}
    assert failed <= zeros
    assert len(failed) >= 20
    assert len(zeros - failed) > 30
    assert len(marked & failed) / len(failed) >= 0.99, {kind: set(names) - marked for kind, names in injected.items()}
    assert marked <= failed


def test_the_report_states_the_bias_on_rewards_and_advantages(run):
    folder, injected = run
    failed = {name for names in injected.values() for name in names}
    report = write_report(folder, folder / "page.html")
    found = report.trajectories
    rewards = {f"r-{number}": 0.0 if f"r-{number}" in failed else float(number % 2 == 0) for number in range(120)}
    others = [rewards[name] for name in rewards if name not in failed]
    shifts = defaultdict(list)
    for number in range(120):
        shifts[number // 8].append(f"r-{number}")
    added = [
        sum(rewards[name] for name in clean) - len(clean) * sum(map(rewards.get, group)) / len(group)
        for group in shifts.values()
        if (clean := [name for name in group if name not in failed]) and len(clean) < len(group)
    ]
    number = sum(len(set(group) - failed) for group in shifts.values() if 0 < len(set(group) - failed) < len(group))
    assert found["bias"] == {
        "samples": len(failed),
        "mean_reward": pytest.approx(sum(rewards.values()) / 120),
        "mean_reward_without": pytest.approx(sum(others) / len(others)),
        "others_in_their_groups": number,
        "advantage_of_others": pytest.approx(sum(added) / number),
    }
    page = report.output.read_text(encoding="utf-8")
    assert f"{len(failed)} got the lowest reward after they, or a call in them, had failed" in page
    assert "in units of the reward" in page
