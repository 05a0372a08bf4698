"""One stack for all tests that only send and query, and real programs through it.

The programs: GRPO, an agent, marked rollouts, and one that leaks what it must not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import shipped_settings
from health.runs import PROGRAMS, build_model
from programs import (
    AGENTIC_RUN,
    DRIVEN_JOB,
    DRIVEN_RUN,
    FAILING_ROLLOUT,
    HEALTHY_JOB,
    HEALTHY_RUN,
    LEAK,
    PROMPT,
    ROLLOUTS,
    RUN,
    STEPS,
)
from stack import Stack, free_ports

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


class Finished(NamedTuple):
    """A program that has ended."""

    returncode: int
    output: str


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """The real collector and backends; ordinary rollouts are all sampled away, decisions are quick.

    The first build on a machine takes many minutes.
    """
    quick = {
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "5s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "2s",
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0",
        # The tiny model's answers are cut off, each an outlier; not 0, for which there would be no share to show.
        "OTEL_RL_COLLECTOR_OUTLIER_PERCENTAGE": "0.001",
    }
    settings = {
        shipped_settings.SPAN_METRICS_INTERVAL: "1s",
        shipped_settings.SCRAPE_INTERVAL: "2s",
        **shipped_settings.flush_timeout("200ms"),
    }
    with Stack(tmp_path_factory.mktemp("stack"), free_ports(), quick, settings) as running:
        yield running


@pytest.fixture(scope="session")
def run_program(stack, tmp_path_factory):
    """Run a command under ``opentelemetry-instrument`` against the stack's collector."""

    def run(*command: str, run_id: str = RUN, **variables: str) -> Finished:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("OTEL_")},
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": stack.addresses["otlp_http"],
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRIC_EXPORT_INTERVAL": "2000",
            "OTEL_RL_RUN_ID": run_id,
            **variables,
        }
        done = subprocess.run(
            ["opentelemetry-instrument", *command],
            env=environment,
            cwd=tmp_path_factory.mktemp("run"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
            check=False,
        )
        return Finished(done.returncode, done.stdout)

    return run


@pytest.fixture(scope="session")
def training(run_program) -> Finished:
    """TRL GRPO on two ranks."""
    example = str(ROOT / "examples" / "grpo_two_ranks.py")
    done = run_program("torchrun", "--nproc-per-node=2", example, "--steps", str(STEPS))
    assert done.returncode == 0, done.output
    return done


@pytest.fixture(scope="session")
def agent(run_program) -> Finished:
    """LangGraph agent rollouts of which one has a failing tool."""
    example = str(ROOT / "examples" / "agent_rollout.py")
    done = run_program("python", example, "--rollouts", str(ROLLOUTS), "--fail-tool-in", str(FAILING_ROLLOUT))
    assert done.returncode == 0, done.output
    return done


@pytest.fixture(scope="session")
def driven(run_program, tmp_path_factory) -> Finished:
    """TRL GRPO whose answers are cut short from a step on; beside it the same job in order."""
    folder = tmp_path_factory.mktemp("driven")
    model = build_model(folder / "model")

    def train(run_id: str, plan: dict[str, object]) -> Finished:
        file = folder / f"{run_id}.json"
        file.write_text(json.dumps(plan))
        variables = {"PYTHONPATH": str(ROOT / "examples"), "OMP_NUM_THREADS": "1"}
        done = run_program(
            "python", str(PROGRAMS / "trl_program.py"), str(file), str(model), run_id=run_id, **variables
        )
        assert done.returncode == 0, done.output
        return done

    with ThreadPoolExecutor() as both:
        return list(both.map(train, (HEALTHY_RUN, DRIVEN_RUN), (HEALTHY_JOB, DRIVEN_JOB)))[-1]


@pytest.fixture(scope="session")
def agentic(run_program) -> Finished:
    """GRPO whose trajectories ask a served model, and a tool over MCP; the server of the tool reports itself too."""
    example, sizes = str(ROOT / "examples" / "agentic_grpo.py"), ("--steps", "2", "--prompts", "1", "--samples", "2")
    children = {"OTEL_RL_CHILDREN": "all"}
    done = run_program("python", example, *sizes, "--engine", "served", run_id=AGENTIC_RUN, **children)
    assert done.returncode == 0, done.output
    return done


@pytest.fixture(scope="session")
def rollouts(run_program) -> Finished:
    """Rollouts marked with the producer API, a streamed call, a tool that does not exist."""
    program = str(ROOT / "tests" / "e2e" / "rollouts_program.py")
    done = run_program("python", program, PYTHONPATH=str(ROOT / "tests"))
    assert done.returncode == 0, done.output
    return done


@pytest.fixture(scope="session")
def leak(run_program) -> Finished:
    """A program whose attributes, log bodies and exception message hold a key and a prompt, content capture on."""
    capture = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT"}
    done = run_program("python", "-c", LEAK, run_id="leaking-run", **capture)
    assert done.returncode == 1, done.output
    assert PROMPT in done.output, "the program's own traceback is the user's and stays"
    return done


@pytest.fixture(scope="session")
def backends(stack):
    """Queries to the three backends."""
    from support.backends import Backends

    return Backends(stack)
