"""A program that uses the whole producer API records only what the registry has."""

import os
import subprocess
import sys
from pathlib import Path

from conformance import live_check, otlp

from otel_rl.semconv import events, metrics, spans

PROGRAM = """
import otel_rl

for iteration in (1, 2):
    with otel_rl.step(iteration):
        with otel_rl.phase("sample"), otel_rl.phase("generate"):
            otel_rl.metric("actor/pg_loss", 0.5)
        with otel_rl.phase("train"):
            pass
with otel_rl.rollout(sample_id=7, group_id=3, policy_version=12):
    with otel_rl.tool("search", arguments={"query": "x"}):
        pass
    with otel_rl.tool("calculator") as tool:
        tool.fail("tool_error")
    otel_rl.reward("exact_match", 1.0, label="pass", explanation="equal")
    otel_rl.event("my_team.buffer.reset", {"size": 3}, {"my_team.reason": "full"})
try:
    with otel_rl.rollout():
        raise TimeoutError("too slow")
except TimeoutError:
    pass
"""


def test_a_program_with_every_call_of_the_producer_api_conforms(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environment |= {"OTEL_RL_RUN_ID": "conformance", "OTEL_RL_DATA_DIR": str(tmp_path / "data")}
    subprocess.run([command, sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True, timeout=300)

    names = {
        (scope.kind, item.get("name") or item.get("eventName"))
        for place, line in otlp.lines(tmp_path / "data")
        for scope in otlp.scopes(place, line)
        for item in scope.items
    }
    assert {
        ("spans", spans.RL_LOOP.type),
        ("spans", spans.RL_ROLLOUT.type),
        ("spans", "execute_tool search"),
        ("metrics", metrics.RL_REWARD_SCORE.name),
        ("metrics", metrics.RL_TRAINER_METRIC.name),
        ("metrics", metrics.GEN_AI_EXECUTE_TOOL_DURATION.name),
        ("logRecords", events.GEN_AI_EVALUATION_RESULT.name),
    } <= names, "the program must have been recorded"
    assert live_check.check(tmp_path / "data") == []
