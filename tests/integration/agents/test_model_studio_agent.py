"""`opentelemetry-instrument python examples/model_studio_agent.py`: from agent to reward, without a variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run
from otel_rl.store.reader.records import Span

pytest.importorskip("dashscope")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "model_studio_agent.py"
SCRIPTS = Path(sys.executable).parent
QUESTIONS, ATTEMPTS = 2, 2
IDS = [f"sum-{number}-{attempt}" for number in range(QUESTIONS) for attempt in range(1, ATTEMPTS + 1)]
#: The stand-in's third answer is wrong.
REWARDS = [1.0, 1.0, 0.25, 1.0]


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "DASHSCOPE_"))}
    environ = {**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=True)


def example(folder: Path, *launcher: str | Path) -> subprocess.CompletedProcess[str]:
    sizes = ["--questions", str(QUESTIONS), "--attempts", str(ATTEMPTS)]
    return run(folder, *launcher, sys.executable, EXAMPLE, *sizes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recorded run, which printed the same as one without us."""
    folder = tmp_path_factory.mktemp("studio")
    recorded = example(folder, SCRIPTS / "opentelemetry-instrument")
    plain = example(tmp_path_factory.mktemp("plain"))
    said = [f"{name}: reward {reward}" for name, reward in zip(IDS, REWARDS, strict=True)]
    assert recorded.stdout.splitlines() == plain.stdout.splitlines() == said
    return folder


@pytest.fixture(scope="module")
def spans(folder: Path) -> list[Span]:
    return [record for record in Reader(find_run(folder / "otel-rl", None)).records() if isinstance(record, Span)]


def test_each_rollout_has_its_model_calls_and_tool_in_its_trace(spans: list[Span]) -> None:
    rollouts = {span.attributes["rl.rollout.id"]: span for span in spans if span.name == "rl.rollout"}
    assert list(rollouts) == IDS
    for name, rollout in rollouts.items():
        inside = [span for span in spans if span.trace_id == rollout.trace_id and span is not rollout]
        assert [span.name for span in inside] == ["chat qwen-plus", "execute_tool add", "chat qwen-plus"]
        assert {span.attributes["rl.rollout.id"] for span in inside} == {name}
        assert {span.parent_id for span in inside} == {rollout.span_id}


def test_the_reward_that_comes_later_links_to_its_rollout_and_has_its_parts_below(spans: list[Span]) -> None:
    rewards = {
        span.attributes["rl.rollout.id"]: span
        for span in spans
        if span.attributes.get("rl.reward.name") == "CalculationReward"
    }
    rollouts = {span.attributes["rl.rollout.id"]: span for span in spans if span.name == "rl.rollout"}
    assert list(rewards) == IDS
    for name, reward in rewards.items():
        assert reward.links == [(rollouts[name].trace_id, rollouts[name].span_id)]
        parts = {span.attributes["rl.reward.name"] for span in spans if span.parent_id == reward.span_id}
        assert parts == {"CalculationReward/right", "CalculationReward/short"}


def test_trajectories_lists_them_with_ids_scores_and_counts(folder: Path) -> None:
    rows = [json.loads(line) for line in run(folder, SCRIPTS / "otel-rl", "trajectories").stdout.splitlines()]
    assert [row["rl.rollout.id"] for row in rows] == IDS
    assert [row["rl.rollout.reward"] for row in rows] == REWARDS
    for row in rows:
        assert set(row["scores"]) == {"CalculationReward", "CalculationReward/right", "CalculationReward/short"}
        assert row["metrics"] == {"tools": 1.0}
        assert (row["rl.rollout.turns"], row["rl.rollout.tool_calls"]) == (2, 1)
        assert row["rl.sample.id"] == row["rl.rollout.id"].rpartition("-")[0]


def test_the_report_counts_rollouts_calls_and_tools(folder: Path) -> None:
    words = run(folder, SCRIPTS / "otel-rl", "report").stderr
    assert f"{len(IDS)} rollouts, {2 * len(IDS)} model calls and {len(IDS)} tool calls" in words
    page = next((folder / "otel-rl").glob("*/report.html")).read_text()
    assert "CalculationReward/short" in page
    assert IDS[-1] in page
