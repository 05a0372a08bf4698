"""`examples/agentic_grpo.py` with vLLM in its process: the engine's calls and new weights in the same trajectories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engine_runs import SCRIPTS, TIMEOUT, environment, read

if TYPE_CHECKING:
    from engine_runs import Store

pytest.importorskip("vllm")
pytest.importorskip("mcp")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agentic_grpo.py"
STEPS, ROLLOUTS = 2, 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("agentic")
    sizes = ["--steps", str(STEPS), "--prompts", "2", "--samples", "2", "--engine", "vllm"]
    done = subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", sys.executable, EXAMPLE, *sizes],
        cwd=folder,
        env=environment(folder, OTEL_RL_CHILDREN="all", PYTHONPATH=str(EXAMPLE.parent)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return read(folder / "data")


def test_each_trajectory_holds_two_turns_of_the_engine_and_the_tool_s_server(store: Store) -> None:
    rollouts = store.named("rl.rollout")
    assert len(rollouts) == STEPS * ROLLOUTS
    for rollout in rollouts:
        inside = [span for span in store.spans if span["traceId"] == rollout["traceId"]]
        turns = [span for span in inside if span["name"] == "text_completion tiny"]
        assert [turn["parentSpanId"] for turn in turns] == [rollout["spanId"]] * 2
        client, server = sorted(
            (span for span in inside if span["name"] == "tools/call add"), key=lambda one: -one["kind"]
        )
        assert server["parentSpanId"] == client["spanId"]


def test_new_weights_are_brought_once_a_step_after_the_samples(store: Store) -> None:
    operations = [span["attributes"].get("rl.sync.operation") for span in store.named("rl.sync")]
    # The first is the phase of the program, around the operations of the engine.
    assert operations == [None, "reload_weights", "reset_prefix_cache"] * STEPS
