"""An unmodified MCP client and its server record one run, one trace per rollout, and only what the registry has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance import live_check, otlp

pytest.importorskip("mcp")

SERVER = Path(__file__).parents[1] / "support" / "mcp_tool_server.py"
PROGRAM = """
import asyncio, os, sys
import otel_rl
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=[sys.argv[1], "stdio"], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        with otel_rl.rollout(sample_id=1):
            await session.call_tool("add", {"a": 1, "b": 2})
            await session.call_tool("boom", {"text": "x"})
            await session.call_tool("absent", {})
            await session.get_prompt("greet", {"name": "x"})
            await session.read_resource("memo://today")
            with otel_rl.tool("add"):
                await session.call_tool("add", {"a": 1, "b": 2})

asyncio.run(main())
"""


def test_a_client_and_its_server_share_a_run_and_a_trace_and_conform(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "program.py"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environment |= {
        "OTEL_RL_CHILDREN": "all",
        "OTEL_RL_DATA_DIR": str(tmp_path / "data"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    }
    subprocess.run([*command, SERVER], cwd=tmp_path, env=environment, check=True, timeout=300)

    assert sum(path.is_dir() for path in (tmp_path / "data").iterdir()) == 1, "one run"
    spans = [
        span
        for place, line in otlp.lines(tmp_path / "data")
        for scope in otlp.scopes(place, line)
        if scope.kind == "spans"
        for span in scope.items
    ]
    (rollout,) = [span for span in spans if span["name"] == "rl.rollout"]
    calls = [span for span in spans if span["name"] == "tools/call add"]
    assert {span["traceId"] for span in calls} == {rollout["traceId"]}
    # The second call of the client is inside the span of `otel_rl.tool`.
    assert sorted(span["kind"] for span in calls) == [2, 2, 3]
    assert live_check.check(tmp_path / "data") == []
