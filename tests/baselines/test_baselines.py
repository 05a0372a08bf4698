"""Programs of classic reinforcement learning: the same results with us, and their episodes, values and evaluations."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("stable_baselines3")

from otel_rl.store.reader import Log, Reader, Span, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
OURS = Path(sys.executable).with_name("opentelemetry-instrument")


def run(folder: Path, program: str, *arguments: str, watched: bool) -> str:
    """What the program printed."""
    command = [*([str(OURS)] if watched else []), sys.executable, str(HERE / program), *arguments]
    environ = {**os.environ, "OTEL_RL_DATA_DIR": str(folder), "OTEL_RL_RUN_ID": "run"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(folder: Path) -> Iterator[Any]:
    yield from Reader(find_run(folder)).records(lambda _: None)


def totals(folder: Path, metric: str) -> dict[str, float]:
    """The last value of each environment, added up over the processes."""
    last = {}
    for record in records(folder):
        if not isinstance(record, Span | Log) and record.metric == metric:
            last[id(record.process), str(record.attributes.get("rl.environment.name"))] = record.value
    sums: dict[str, float] = {}
    for (_, name), value in last.items():
        sums[name] = sums.get(name, 0) + value
    return sums


@pytest.mark.parametrize("where", ["here", "processes"])
def test_ppo_learns_the_same_and_reports_itself(tmp_path, where):
    plain = run(tmp_path / "plain", "ppo_program.py", where, watched=False)
    assert run(tmp_path / "data", "ppo_program.py", where, watched=True) == plain
    steps_of_all = [one.body for one in records(tmp_path / "data") if isinstance(one, Log) and one.event == "rl.step"]
    # The steps that are guessed from the optimizer have records of their own.
    logged = [body for body in steps_of_all if "time/iterations" in body]
    assert [body["time/iterations"] for body in logged] == [1, 2]
    assert "train/loss" in logged[1]
    assert logged[1]["rollout/ep_rew_mean"] > 0
    steps = totals(tmp_path / "data", "rl.environment.steps")
    trained = "SubprocVecEnv" if where == "processes" else "CartPole-v1"
    assert steps[trained] >= 256
    assert len(steps) == (2 if where == "processes" else 1)
    spans = [one.name for one in records(tmp_path / "data") if isinstance(one, Span)]
    assert spans.count("rl.evaluate") == 1
    assert totals(tmp_path / "data", "rl.telemetry.dropped") == {}


def test_a_loop_in_one_file_learns_the_same_and_its_episodes_are_its_own(tmp_path):
    plain = run(tmp_path / "plain", "single_file_loop.py", watched=False)
    assert run(tmp_path / "data", "single_file_loop.py", watched=True) == plain
    returns = ast.literal_eval(plain.split(" ", 1)[1])
    assert totals(tmp_path / "data", "rl.environment.episodes") == {"CartPole-v1": len(returns)}
    mean = totals(tmp_path / "data", "rl.environment.episode.return.mean")
    assert mean["CartPole-v1"] == pytest.approx(sum(returns) / len(returns))
