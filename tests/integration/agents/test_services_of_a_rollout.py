"""Rewards and tools of services in other processes are in the row of the rollout that asked."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.own_command import otel_rl

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
PROGRAMS = Path(__file__).with_name("service_programs")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")


@contextlib.contextmanager
def serving(kind, folder, environ):
    """A service in a process of its own, recorded where its environment says so; gives its address."""
    command = [LAUNCHER, sys.executable] if "OTEL_RL_RUN_ID" in environ else [sys.executable]
    process = subprocess.Popen(
        [*command, PROGRAMS / "reward_server.py", kind],
        cwd=folder,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        assert process.wait(60) == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder, and what the program printed."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_RUN_ID": "run-1"}
    with (
        serving("asgi", folder, own) as asgi,
        serving("wsgi", folder, own) as wsgi,
        serving("plain", folder, kept) as plain,
    ):
        services = f"reward={asgi},scorer={wsgi},old={plain}"
        done = subprocess.run(
            [LAUNCHER, sys.executable, PROGRAMS / "rollouts.py", asgi, wsgi, plain],
            cwd=folder,
            env={**own, "OTEL_RL_SERVICES": services},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return folder, done.stdout.split()


@pytest.fixture(scope="module")
def rows(run):
    printed = otel_rl(run[0], "trajectories", "store").stdout
    return {row["rl.rollout.id"]: row for row in map(json.loads, printed.splitlines())}


@pytest.mark.parametrize("name", ["asgi", "asgi, in a thread", "wsgi", "wsgi, streamed"])
def test_rewards_and_tools_of_a_service_are_in_the_row(rows, name):
    row = rows[name]
    assert row["scores"] == {"tests": 2.5}
    assert row["rl.rollout.reward"] == 2.5
    assert row["rl.rollout.tool_calls"] == 2
    assert row["rl.rollout.service_calls"] == 2
    assert row["rl.rollout.service_seconds"] > 0


def test_a_service_without_otel_rl_answers_and_has_its_time_in_the_row(rows):
    row = rows["plain"]
    assert row["rl.rollout.service_calls"] == 2
    assert row.get("scores", {}) == {}
    assert "rl.rollout.tool_calls" not in row


def test_a_failed_request_makes_the_reward_suspect(rows):
    assert rows["failed"]["rl.rollout.span_errors"] == 1
    assert rows["failed"]["rl.rollout.suspect"] is True


def test_a_request_with_headers_that_nobody_can_read_is_answered_and_in_no_row(run, rows):
    assert run[1] == ["200"] * 8
    assert len(rows) == 6


def test_server_spans_lie_below_the_client_s_in_the_trace_of_the_rollout(run, rows):
    from otel_rl.store.reader import Reader, Span
    from otel_rl.store.reader.locate import find_run

    spans = [record for record in Reader(find_run(run[0] / "store", None)).records() if isinstance(record, Span)]
    clients = {span.span_id: span for span in spans if "rl.service" in span.attributes}
    # Some versions of FastAPI make spans of their own, which say the route.
    served = [
        span
        for span in spans
        if span.is_server and "http.route" not in span.attributes and span.attributes.get("rl.rollout.id")
    ]
    # The one without otel-rl has none.
    assert len(served) == 9
    for span in served:
        assert clients[span.parent_id].trace_id == span.trace_id
        assert span.attributes["rl.rollout.id"] == clients[span.parent_id].attributes["rl.rollout.id"]
    failed = [span for span in served if span.attributes.get("error.type") == "500"]
    assert [span.attributes["rl.rollout.id"] for span in failed] == ["failed"]


def test_the_report_has_time_and_failures_by_service(run):
    otel_rl(run[0], "report", "store", "--output", "page.html")
    page = (run[0] / "page.html").read_text(encoding="utf-8")
    assert "Time in services" in page
    for service in ("reward", "scorer", "old"):
        assert f">{service}<" in page
