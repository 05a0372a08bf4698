"""Rollout and reward of Model Studio in two processes, run as the package's servers run them: one row."""

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

SCRIPTS = Path(sys.executable).parent
#: What the server does with the body of a request.
SERVED = """
import asyncio
from dashscope.finetune.reinforcement import *
from dashscope.finetune.reinforcement.common.model_types import FunctionType
from dashscope.finetune.reinforcement.component.func_manager import FuncManager
from dashscope.finetune.reinforcement.component.observability import observe_processor

IDS = {"job_id": "j", "sample_id": "s-1", "rollout_id": "ro-7", "attempt_id": "3"}

def serve(kind, processor, **body):
    manager = FuncManager(kind, processor)
    asyncio.run(manager.processes(manager.parses({**body, "request_metadata": IDS})))
"""
ROLLOUT = """
class Agent(AbstractRolloutProcessor):
    @observe_processor
    def process(self, input_data):
        return RolloutOutput(agent_output=AgentOutput(messages=[], rollout_metrics={"hops": 2}))

resource = {"model_name": "m", "base_url": "http://127.0.0.1", "api_key": "sk-of-the-policy"}
serve(FunctionType.ROLLOUT, Agent(), messages=[], model_resource=resource)
"""
REWARD = """
@reward_func("calculation")
class Judge(AbstractRewardProcessor):
    @sub_reward_func("right", sub_weight=0.5)
    def right(self, input_data):
        return RewardOutput(reward=Reward(reward_score=1.0))

serve(FunctionType.REWARD, Judge(), agent_output={})
"""


@pytest.mark.parametrize("decorates", ["true", "false"])
def test_a_score_of_another_process_joins_the_row_by_its_ids(tmp_path: Path, decorates: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    own = {"OTEL_RL_RUN_ID": "studio", "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "ENABLE_TRAJECTORY": decorates}
    started = [
        subprocess.Popen(
            [SCRIPTS / "opentelemetry-instrument", sys.executable, "-c", SERVED + program],
            cwd=tmp_path,
            env={**kept, **own},
        )
        for program in (ROLLOUT, REWARD)
    ]
    assert [process.wait(300) for process in started] == [0, 0]
    listed = subprocess.run([SCRIPTS / "otel-rl", "trajectories"], cwd=tmp_path, capture_output=True, check=True)
    [row] = map(json.loads, listed.stdout.splitlines())
    assert (row["rl.rollout.id"], row["rl.rollout.attempt"], row["metrics"]) == ("ro-7", 3, {"hops": 2.0})
    assert row["scores"] == {"Judge": 0.5, "Judge/right": 1.0}
    spans = [one for one in Reader(find_run(tmp_path / "otel-rl", None)).records() if isinstance(one, Span)]
    entries = ["invoke_agentic_rl"] * 2 if decorates == "true" else []
    expected = [*entries, "rl.reward", "rl.reward", "rl.rollout"]
    assert sorted(span.name for span in spans if span.name != "rl.run") == expected
    ids = {(span.attributes["rl.rollout.id"], span.attributes["rl.sample.id"]) for span in spans if "rew" in span.name}
    assert ids == {("ro-7", "s-1")}
    assert "sk-of-the-policy" not in "".join(file.read_text() for file in tmp_path.rglob("*.jsonl"))
