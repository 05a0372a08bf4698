"""What a forked worker's own spans are below: the program's span at the fork, and never its parent's step or phase."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
PROGRAM = """
import json, multiprocessing, otel_rl
from opentelemetry import trace

tracer = trace.get_tracer("program")

def parent_of_span(_):
    with tracer.start_as_current_span("in the worker") as span:
        return span.parent and span.parent.span_id

def of_worker():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(parent_of_span, [None])[0]

if __name__ == "__main__":
    found = {}
    with otel_rl.step(1):
        found["step"] = of_worker()
        with otel_rl.phase("reward"):
            found["phase"] = of_worker()
            with tracer.start_as_current_span("own") as own:
                found["own"] = of_worker() == own.get_span_context().span_id
            with otel_rl.span("own"):
                found["own by our API"] = of_worker() == trace.get_current_span().get_span_context().span_id
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the program has found."""
    folder = tmp_path_factory.mktemp("run")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [LAUNCHER, sys.executable, program],
        cwd=folder,
        env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"},
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_span_of_the_program_around_a_pool_stays_the_parent(found):
    assert (found["own"], found["own by our API"]) == (True, True)


def test_the_step_and_phase_of_the_parent_are_no_parents(found):
    assert (found["step"], found["phase"]) == (None, None)
