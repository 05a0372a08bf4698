"""`opentelemetry-instrument python examples/agent_rollout.py`: one trace per rollout, whoever records LangChain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conformance.live_check import check
from support.fake_openai import FakeOpenAI

pytest.importorskip("langgraph")
pytest.importorskip("langchain_openai")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "agent_rollout.py"
ERROR = 2
#: Which instrumentors are told to stay away: none, or the official ones.
MODES = {"official": "", "ours": "langchain,openai"}


class Store:
    """What one run left in its file store."""

    def __init__(self, folder: Path) -> None:
        self.spans: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.metrics: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in self._lines(folder, "traces"):
            for span in (s for r in line["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]):
                self.spans.append({**span, "attributes": _attributes(span)})
        for line in self._lines(folder, "logs"):
            for log in (x for r in line["resourceLogs"] for scope in r["scopeLogs"] for x in scope["logRecords"]):
                self.logs.append({**log, "attributes": _attributes(log)})
        for line in self._lines(folder, "metrics"):
            for metric in (m for r in line["resourceMetrics"] for scope in r["scopeMetrics"] for m in scope["metrics"]):
                data = next(value for value in metric.values() if isinstance(value, dict))
                self.metrics[metric["name"]].extend(data.get("dataPoints", ()))

    @staticmethod
    def _lines(folder: Path, signal: str) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for file in sorted(folder.glob(f"*/*/{signal}-*.jsonl"))
            for line in file.read_text().splitlines()
        ]

    def rollouts(self) -> list[dict[str, dict[str, Any]]]:
        """The traces of agents, in order: span by name."""
        traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for span in self.spans:
            traces[span["traceId"]].append(span)
        found = [spans for spans in traces.values() if any(s["name"].startswith("invoke_agent") for s in spans)]
        found.sort(key=lambda spans: min(int(span["startTimeUnixNano"]) for span in spans))
        for spans in found:
            assert len({span["name"] for span in spans}) == len(spans), [span["name"] for span in spans]
        return [{span["name"]: span for span in spans} for spans in found]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: next(iter(entry["value"].values()), None) for entry in item.get("attributes", ())}


def plain(value: dict[str, Any]) -> Any:
    """The Python value of an OTLP JSON value."""
    found = next(iter(value.values()), None)
    if "kvlistValue" in value:
        return {entry["key"]: plain(entry["value"]) for entry in found["values"]}
    if "arrayValue" in value:
        return [plain(item) for item in found["values"]]
    return int(found) if "intValue" in value else found


class Run(NamedTuple):
    """Where a run was recorded and what, what it printed, and what it sent to the model."""

    folder: Path
    store: Store
    done: subprocess.CompletedProcess[str]
    headers: list[dict[str, str]]


def _run(command: list[Any], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    return subprocess.run(
        [*command, EXAMPLE, "--fail-tool-in", "1"],
        cwd=folder,
        env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )


def _instrumented(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    launcher = Path(sys.executable).with_name("opentelemetry-instrument")
    return _run([launcher, sys.executable], folder, OTEL_RL_DATA_DIR=str(folder / "store"), **environment)


@pytest.fixture(scope="module", params=MODES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run]:
    """The mode, and a run in it, which has said nothing of itself."""
    folder = tmp_path_factory.mktemp(request.param)
    with FakeOpenAI() as server:
        done = _instrumented(
            folder,
            OPENAI_BASE_URL=server.base_url,
            OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=MODES[request.param],
            OTEL_RL_QUIET="1",
            BAGGAGE="rl.group.id=group-7",
        )
        headers = [headers for _, headers, _ in server.requests]
    return request.param, Run(folder, Store(folder / "store"), done, headers)


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A run that nobody records."""
    with FakeOpenAI() as server:
        return _run([sys.executable], tmp_path_factory.mktemp("plain"), OPENAI_BASE_URL=server.base_url)


def _expect_rollouts(store: Store) -> None:
    rollouts = store.rollouts()
    assert len(rollouts) == 3
    for number, spans in enumerate(rollouts):
        agent = spans["invoke_agent calculator_agent"]
        assert agent["attributes"]["gen_ai.conversation.id"] == f"rollout-{number}"
        tool = spans["execute_tool add"]
        failed = tool.get("status", {}).get("code") == ERROR
        assert failed == (number == 1)
        assert tool["attributes"].get("error.type") == ("RuntimeError" if number == 1 else None)
        chat = spans["chat tiny"]
        assert int(chat["attributes"]["gen_ai.usage.output_tokens"]) > 0
        assert chat["attributes"]["rl.inference.retries"] == "0"
        ids = {span["spanId"] for span in spans.values()}
        assert chat["parentSpanId"] in ids
        assert tool["parentSpanId"] in ids
    rewards = {
        log["traceId"]: log["attributes"]["gen_ai.evaluation.score.value"]
        for log in store.logs
        if log.get("eventName") == "gen_ai.evaluation.result"
    }
    traces = [next(iter(spans.values()))["traceId"] for spans in rollouts]
    assert [rewards[trace] > 0 for trace in traces] == [True, False, True]
    tokens = store.metrics["gen_ai.client.token.usage"]
    # The last export of each series.
    series = {json.dumps(point["attributes"], sort_keys=True): int(point["count"]) for point in tokens}
    assert list(series.values()) == [3, 3]


def _expect_trajectories(store: Store, *, have_traces: bool) -> None:
    [record] = [log for log in store.logs if log.get("eventName") == "rl.trajectories"]
    columns = plain(record["body"])
    assert columns["rl.rollout.status"] == ["finished"] * 3
    assert columns["gen_ai.conversation.id"] == [f"rollout-{number}" for number in range(3)]
    assert columns["rl.rollout.model_calls"] == columns["rl.rollout.turns"] == [1, 1, 1]
    assert columns["rl.rollout.tool_calls"] == [1, 1, 1]
    assert columns["rl.rollout.tool_errors"] == [0, 1, 0]
    assert columns["rl.rollout.suspect"] == [None, True, None]
    assert columns["rl.reward.names"] == ["reward"]
    assert columns["rl.reward.scores"] == [columns["rl.rollout.reward"]]
    chats = [spans["chat tiny"]["attributes"] for spans in store.rollouts()]
    for kind in ("input", "output"):
        tokens = [int(chat[f"gen_ai.usage.{kind}_tokens"]) for chat in chats]
        assert columns[f"rl.rollout.{kind}_tokens"] == tokens
    if have_traces:
        agents = [spans["invoke_agent calculator_agent"] for spans in store.rollouts()]
        assert columns["rl.rollout.trace_id"] == [span["traceId"] for span in agents]
        assert [span["attributes"]["rl.rollout.tool_errors"] for span in agents] == ["0", "1", "0"]


def test_a_rollout_against_a_real_server_is_one_trace(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("transformers")
    _instrumented(tmp_path)
    _expect_rollouts(Store(tmp_path / "store"))
    assert check(tmp_path) == []


def test_the_trace_goes_on_in_the_server_in_both_modes(run: tuple[str, Run]) -> None:
    mode, (folder, store, _, sent) = run
    if mode == "official":
        assert check(folder) == []
    assert {headers.get("baggage") for headers in sent} == {"rl.group.id=group-7"}
    _expect_rollouts(store)
    _expect_trajectories(store, have_traces=mode == "ours")
    chats = [spans["chat tiny"] for spans in store.rollouts()]
    parents = [headers["traceparent"].split("-")[1:3] for headers in sent]
    assert parents == [[span["traceId"], span["spanId"]] for span in chats]
    nodes = {name for spans in store.rollouts() for name in spans if name.startswith("node ")}
    assert nodes == ({"node think", "node act", "node judge"} if mode == "ours" else set())


def test_the_program_prints_the_same_with_and_without_us(
    run: tuple[str, Run], plain_run: subprocess.CompletedProcess[str]
) -> None:
    done = run[1].done
    assert (done.stdout, done.stderr) == (plain_run.stdout, plain_run.stderr)
