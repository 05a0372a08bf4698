"""`opentelemetry-instrument python examples/agentic_grpo.py`: a trajectory from its step to its reward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.own_command import otel_rl
from test_agent_rollout import Store

pytest.importorskip("mcp")

ROOT = Path(__file__).resolve().parents[3]
STEPS, PROMPTS, SAMPLES = 2, 2, 2
CLIENT, SERVER = 3, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example recorded, with `generate` of Transformers as its engine; the tool's server records too."""
    folder = tmp_path_factory.mktemp("agentic")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    scripts = Path(sys.executable).parent
    sizes = ["--steps", str(STEPS), "--prompts", str(PROMPTS), "--samples", str(SAMPLES)]
    done = subprocess.run(
        [
            scripts / "opentelemetry-instrument",
            sys.executable,
            ROOT / "examples" / "agentic_grpo.py",
            *sizes,
            "--engine",
            "transformers",
        ],
        cwd=folder,
        env={**environ, "OTEL_RL_CHILDREN": "all", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert len([line for line in done.stdout.splitlines() if line.startswith("step ")]) == STEPS
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    return Store(folder / "otel-rl")


def rollouts(store: Store) -> list[dict[str, Any]]:
    return sorted(
        (span for span in store.spans if span["name"] == "rl.rollout"), key=lambda span: int(span["startTimeUnixNano"])
    )


def trace_of(store: Store, span: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in store.spans if one["traceId"] == span["traceId"]]


def test_every_trajectory_is_a_trace_of_its_own_linked_to_its_step(store: Store) -> None:
    found = rollouts(store)
    steps = {
        span["spanId"]: span["attributes"]["rl.loop.iteration"] for span in store.spans if "rank.step" in span["name"]
    }

    assert len({span["traceId"] for span in found}) == len(found) == STEPS * PROMPTS * SAMPLES
    linked = [steps[span["links"][0]["spanId"]] for span in found]
    assert linked == [span["attributes"]["rl.loop.iteration"] for span in found]


def test_the_tool_s_server_joins_the_trace_from_its_own_process(store: Store) -> None:
    for rollout in rollouts(store):
        spans = trace_of(store, rollout)
        (client,) = [span for span in spans if span["name"] == "tools/call add" and span["kind"] == CLIENT]
        (server,) = [span for span in spans if span["name"] == "tools/call add" and span["kind"] == SERVER]
        assert (client["parentSpanId"], server["parentSpanId"]) == (rollout["spanId"], client["spanId"])
        assert server["attributes"]["rl.sample.id"] == rollout["attributes"]["rl.sample.id"]


def test_the_rewards_of_a_trajectory_are_in_its_trace_and_add_up(store: Store) -> None:
    scores: dict[str, list[float]] = defaultdict(list)
    for log in store.logs:
        if log.get("eventName") == "gen_ai.evaluation.result":
            scores[log["traceId"]].append(log["attributes"]["gen_ai.evaluation.score.value"])

    for rollout in rollouts(store):
        assert len(scores[rollout["traceId"]]) == 2
        assert rollout["attributes"]["rl.rollout.reward"] == pytest.approx(sum(scores[rollout["traceId"]]))


def test_new_weights_reach_the_engine_in_every_step(store: Store) -> None:
    syncs = [span for span in store.spans if span["name"] == "rl.sync"]
    assert [int(span["attributes"]["rl.loop.iteration"]) for span in syncs] == list(range(1, STEPS + 1))


@pytest.fixture(scope="module")
def reported(folder: Path) -> dict[str, Any]:
    """What the report says of the trajectories; its page is `page.html`."""
    printed = otel_rl(folder, "report", "otel-rl", "--json", "-o", "page.html").stdout
    return json.loads(printed)["trajectories"]


def test_the_report_lists_every_trajectory_with_its_tool_call_and_reward(
    folder: Path, store: Store, reported: dict[str, Any]
) -> None:
    listed = {row["rl.rollout.id"]: row for row in reported["rows"]}
    page = (folder / "page.html").read_text(encoding="utf-8")
    for rollout in rollouts(store):
        row = listed[rollout["attributes"]["rl.rollout.id"]]
        assert (row["rl.rollout.trace_id"], row["rl.rollout.tool_calls"]) == (rollout["traceId"], 1)
        assert row["rl.rollout.reward"] == pytest.approx(rollout["attributes"]["rl.rollout.reward"])
        assert row["scores"].keys() == {"right", "digits"}
        assert rollout["attributes"]["rl.sample.id"] in page


def test_the_report_has_what_the_program_trained_on_and_finds_its_advantages_right(reported: dict[str, Any]) -> None:
    advantages = reported["advantages"]
    assert (advantages["checked"], advantages["differing"]) == (STEPS * PROMPTS * SAMPLES, 0)
    assert all(row["rl.rollout.trained"] for row in reported["rows"])
