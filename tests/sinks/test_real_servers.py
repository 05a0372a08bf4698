"""A rollout of an agent through a real gateway into MLflow, Phoenix and Zipkin: what their own APIs show.

The servers come from package registries; `make test-sinks` gets them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import servers
from integration.collector.collector_process import CollectorProcess, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ROLLOUT = "rollout-of-the-test"
EXPERIMENT = "sinks"
CALLS = {"chat tiny", "execute_tool add", "rl.reward", "attempt"}
ROLLOUT_SPANS = {"rl.rollout", *CALLS}
STEP_SPANS = {"rl.loop", "rl.sample", "rl.train"}
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}

pytestmark = pytest.mark.skipif(not servers.FOLDER.is_dir(), reason="OTEL_RL_SINKS names no folder: make test-sinks")


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, servers.Server]]:
    """The three servers, started side by side."""
    made = {name: getattr(servers, name)(tmp_path_factory.mktemp(name)) for name in ("mlflow", "phoenix", "zipkin")}
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        for each in made.values():
            stack.push(each)
        yield dict(zip(made, pool.map(lambda each: each.__enter__(), made.values()), strict=True))


@pytest.fixture(scope="module")
def sent(products: dict[str, servers.Server], tmp_path_factory: pytest.TempPathFactory) -> dict[str, servers.Server]:
    """The servers, after the program has ended."""
    folder = tmp_path_factory.mktemp("gateway")
    build = [sys.executable, ROOT / "otelcol-builder" / "build.py"]
    binary = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    experiment = products["mlflow"].ask("/api/2.0/mlflow/experiments/create", {"name": EXPERIMENT})["experiment_id"]
    variables = {
        "OTEL_RL_COLLECTOR_BINARY": binary,
        "OTEL_RL_COLLECTOR_MLFLOW_EXPERIMENT_ID": str(experiment),
        "OTEL_RL_COLLECTOR_PROJECT": "grpo",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "5s",
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100",
    }
    gateway = CollectorProcess(Path(binary), [], folder, variables)
    words = ["file", *(f"{name}={server.url}" for name, server in products.items())]
    gateway.command = [str(BIN / "otel-rl"), "collector", "run", "--role", "gateway", "--sink", *words]
    gateway.command += ["--with", "content"]
    with gateway:
        subprocess.run(
            [BIN / "opentelemetry-instrument", sys.executable, Path(__file__).with_name("agent_program.py"), ROLLOUT],
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
                "PYTHONPATH": str(ROOT / "tests"),
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{gateway.http_port}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            },
            cwd=folder,
            check=True,
            timeout=300,
        )
        wait_for(lambda: spans_in_phoenix(products["phoenix"]).keys() >= ROLLOUT_SPANS, "Phoenix to have the rollout")
        wait_for(lambda: spans_in_zipkin(products["zipkin"]).keys() >= STEP_SPANS, "Zipkin to have the step")
        wait_for(lambda: len(traces_in_mlflow(products["mlflow"])) >= 2, "MLflow to have both traces")
    return products


def spans_in_phoenix(server: servers.Server) -> dict[str, dict[str, Any]]:
    """Name -> span of the project."""
    try:
        found = server.ask("/v1/projects/grpo/spans?limit=1000")["data"]
    except servers.urllib.error.HTTPError:  # the project comes with its first span
        return {}
    return {each["name"]: each for each in found}


def spans_in_zipkin(server: servers.Server) -> dict[str, dict[str, Any]]:
    """Name -> span of all traces."""
    return {each["name"]: each for trace in server.ask("/api/v2/traces?limit=1000") for each in trace}


def traces_in_mlflow(server: servers.Server) -> list[dict[str, Any]]:
    """Every trace of the experiment."""
    experiment = server.ask(f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={EXPERIMENT}")["experiment"]
    at = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment["experiment_id"]}}
    return list(server.ask("/api/3.0/mlflow/traces/search", {"locations": [at], "max_results": 500}).get("traces", []))


@pytest.mark.parametrize("name", ["mlflow", "phoenix", "zipkin"])
def test_a_server_of_these_tests_listens_on_loopback_only(products: dict[str, servers.Server], name: str):
    assert servers.listening(products[name].process) <= LOOPBACK


def test_phoenix_shows_the_rollout_as_one_tree_and_no_steps(sent: dict[str, servers.Server]):
    found = spans_in_phoenix(sent["phoenix"])
    assert found.keys() == ROLLOUT_SPANS
    ids = {each["context"]["span_id"] for each in found.values()}
    assert [name for name, each in found.items() if each["parent_id"] not in ids] == ["rl.rollout"]
    assert {each["context"]["trace_id"] for each in found.values()} == {found["rl.rollout"]["context"]["trace_id"]}


def test_phoenix_knows_model_call_and_tool_with_their_content(sent: dict[str, servers.Server]):
    found = spans_in_phoenix(sent["phoenix"])
    assert (found["chat tiny"]["span_kind"], found["execute_tool add"]["span_kind"]) == ("LLM", "TOOL")
    chat = found["chat tiny"]["attributes"]
    assert (chat["llm.token_count.prompt"], chat["llm.token_count.completion"]) == (7, 3)
    assert "What is 1 + 2?" in json.dumps(chat)


def test_phoenix_has_the_rollout_as_a_session(sent: dict[str, servers.Server]):
    sessions = sent["phoenix"].ask("/v1/projects/grpo/sessions")["data"]
    assert [each["session_id"] for each in sessions] == [ROLLOUT]


def test_zipkin_shows_the_step_and_the_rollout_with_their_attributes_as_tags(sent: dict[str, servers.Server]):
    found = spans_in_zipkin(sent["zipkin"])
    assert found.keys() >= ROLLOUT_SPANS | STEP_SPANS
    assert found["chat tiny"]["tags"]["gen_ai.usage.input_tokens"] == "7"
    assert found["rl.rollout"]["tags"]["rl.rollout.id"] == ROLLOUT
    assert "session.id" not in found["rl.rollout"]["tags"]


def test_mlflow_has_the_rollout_with_its_tokens_and_session_and_the_step_without(sent: dict[str, servers.Server]):
    traces = {trace["trace_id"]: trace for trace in traces_in_mlflow(sent["mlflow"])}
    sessions = {name: trace.get("trace_metadata", {}).get("mlflow.trace.session") for name, trace in traces.items()}
    [rollout] = [name for name, session in sessions.items() if session == ROLLOUT]
    assert json.loads(traces[rollout]["trace_metadata"]["mlflow.trace.tokenUsage"])["input_tokens"] == 7
    assert list(sessions.values()).count(None) == len(sessions) - 1 >= 1
