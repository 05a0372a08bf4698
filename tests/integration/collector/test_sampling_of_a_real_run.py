"""A real run of two ranks through a gateway that keeps nothing of the rest: what the pack asks for is there, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collector_process import FILE_SINK, CollectorProcess, wait_for
from otlp import attributes
from sampled_traces import FAST, span_calls

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = """
import otel_rl
for iteration in (1, 2, 3):
    with otel_rl.step(iteration):
        with otel_rl.phase("sample"), otel_rl.tool("search"):
            pass
        with otel_rl.phase("checkpoint"):
            pass
        for number in range(4):
            with otel_rl.rollout(f"{iteration}-{number}", keep=number == 0), otel_rl.tool("calculator"):
                otel_rl.reward("exact_match", 1.0)
"""
#: What each rank records of a step beside the root, and all that the run records.
OF_A_RANK = {"rl.rank.step", "rl.sample", "execute_tool search", "rl.checkpoint"}
TOTAL = 1 + 3 + 2 * 3 * (len(OF_A_RANK) + 4 * 2)


def run(collector: CollectorProcess, program: Path) -> None:
    """Two ranks of torchrun, which belong to one launch without a process group."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    scripts = Path(sys.executable).parent
    ours |= {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "OTEL_RL_RUN_ID": "real",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.http_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        # The third iteration is kept whole.
        "OTEL_RL_WHOLE_STEPS": "3",
    }
    command = [scripts / "opentelemetry-instrument", "torchrun", "--standalone", "--nproc-per-node=2", program]
    subprocess.run(command, env=ours, cwd=program.parent, check=True, timeout=120)


def rollouts(spans: list[dict]) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for span in spans:
        if "rl.rollout.id" in attributes(span):
            found[attributes(span)["rl.rollout.id"]][span["name"]] += 1
    return found


@pytest.mark.parametrize("overlays", [(), ("overlays/strict.yaml",)], ids=["whole traces", "strict"])
def test_steps_forced_rollouts_and_whole_iterations_of_two_ranks_are_there(start_collector, tmp_path, overlays):
    gateway = start_collector("gateway.yaml", FILE_SINK, *overlays, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run(gateway, program)
    wait_for(lambda: span_calls(gateway) == TOTAL, "every span is counted")
    gateway.stop()
    left = gateway.spans()

    steps: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for span in left:
        if "rl.rollout.id" not in attributes(span) and span["name"] != "rl.run":
            steps[span["traceId"]].append(span["name"])
    assert len(steps) == 3
    for names in steps.values():
        assert Counter(names) == Counter({"rl.loop": 1, **dict.fromkeys(OF_A_RANK, 2)})
    kept = {f"{iteration}-0" for iteration in (1, 2, 3)} | {f"3-{number}" for number in range(4)}
    assert rollouts(left) == {name: Counter({"rl.rollout": 2, "execute_tool calculator": 2}) for name in kept}
    assert [span["name"] for span in left].count("rl.run") == 1
