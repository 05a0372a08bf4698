"""`examples/agentic_grpo.py` with vLLM in its process: the engine's calls and new weights in the same trajectories."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from engine_runs import SCRIPTS, TIMEOUT, environment, read
from stack import Stack, free_ports
from support.backends import Backends, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_runs import Store

pytest.importorskip("vllm")
pytest.importorskip("mcp")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agentic_grpo.py"
STEPS, ROLLOUTS = 2, 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of one run."""
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
    return folder / "data"


@pytest.fixture(scope="module")
def store(data: Path) -> Store:
    return read(data)


@pytest.fixture(scope="module")
def reported(data: Path) -> dict[str, Any]:
    """What the report says, as JSON."""
    page = data.parent / "page.html"
    command = [SCRIPTS / "otel-rl", "report", data, "--json", "-o", page]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)


@pytest.fixture(scope="module")
def backends(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    """The real stack, which was sent the files of the run as they are: a line is a request of OTLP/HTTP."""
    decisions, settings = {"OTEL_RL_COLLECTOR_DECISION_WAIT": "5s"}, shipped_settings.flush_timeout("200ms")
    with Stack(tmp_path_factory.mktemp("stack"), free_ports(), decisions, settings) as stack:
        for file in sorted(data.glob("*/*/*.jsonl")):
            signal = file.name.partition("-")[0]
            for line in file.read_bytes().splitlines():
                request = urllib.request.Request(
                    f"{stack.addresses['otlp_http']}/v1/{signal}", line, {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request, timeout=30).close()
        yield Backends(stack)


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


def test_the_report_has_each_trajectory_with_its_calls_of_the_engine_and_its_rewards(
    reported: dict[str, Any], store: Store
) -> None:
    found = reported["trajectories"]
    rows = {row["rl.rollout.id"]: row for row in found["rows"]}
    for rollout in store.named("rl.rollout"):
        row = rows[rollout["attributes"]["rl.rollout.id"]]
        assert (row["rl.rollout.trace_id"], row["rl.rollout.model_calls"]) == (rollout["traceId"], 2)
        assert row["rl.rollout.reward"] == pytest.approx(sum(row["scores"].values()))
        assert row["scores"].keys() == {"right", "digits"}
        assert row["rl.rollout.output_tokens"] > 0
    assert (found["advantages"]["checked"], found["advantages"]["differing"]) == (STEPS * ROLLOUTS, 0)
    assert found["trained_tokens"] > 0


def test_the_same_trajectory_is_whole_in_tempo_and_its_rewards_in_loki(
    reported: dict[str, Any], store: Store, backends: Backends
) -> None:
    # The first trajectory of a step asks to be kept; the others are a matter of the collector's sampling.
    trace_id = store.named("rl.rollout")[ROLLOUTS]["traceId"]
    [row] = [row for row in reported["trajectories"]["rows"] if row["rl.rollout.trace_id"] == trace_id]

    def whole() -> list[dict[str, Any]] | None:
        spans = backends.trace(trace_id)
        return spans if len(spans) >= 5 else None

    spans = wait_for(whole, f"the whole trace {trace_id} in Tempo")
    [rollout] = [span for span in spans if span["name"] == "rl.rollout"]
    turns = [span for span in spans if span["name"] == "text_completion tiny"]
    assert [turn["parentSpanId"] for turn in turns] == [rollout["spanId"]] * 2
    client, server = sorted((span for span in spans if span["name"] == "tools/call add"), key=lambda one: one["kind"])
    assert (client["parentSpanId"], server["parentSpanId"]) == (rollout["spanId"], client["spanId"])

    def scores() -> dict[str, float] | None:
        streams = backends.logql('{service_name=~".+"} | event_name="gen_ai.evaluation.result"')
        found = {
            labels["gen_ai_evaluation_name"]: float(labels["gen_ai_evaluation_score_value"])
            for labels in (stream["stream"] for stream in streams)
            if labels["trace_id"] == trace_id
        }
        return found if len(found) == len(row["scores"]) else None

    assert wait_for(scores, "the rewards of the trajectory in Loki") == pytest.approx(row["scores"])
