"""What calls of process pools carry that belong to no rollout, and where the worker of a rollout's call begins."""

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
from concurrent.futures import ProcessPoolExecutor

SPAWN = multiprocessing.get_context("spawn")
CARRIED = "'otel_rl.training.caller_steps' in __import__('sys').modules"
TRACE = "__import__('opentelemetry.trace').trace.get_current_span().get_span_context().trace_id"
BEGINS = f"__import__('sys').began = {TRACE}"

def beside():
    with ProcessPoolExecutor(1, mp_context=SPAWN) as executor, SPAWN.Pool(1) as pool:
        return [executor.submit(eval, CARRIED).result(), pool.apply(eval, (CARRIED,)), *pool.map(eval, [CARRIED])]

if __name__ == "__main__":
    with otel_rl.rollout("before"):
        mine = eval(TRACE)
    found = {"carried": beside()}
    with ProcessPoolExecutor(1, mp_context=SPAWN, initializer=exec, initargs=(BEGINS,)) as executor:
        with otel_rl.rollout("one") as it:
            found["inside"] = executor.submit(eval, TRACE).result() == eval(TRACE) != mine
        found["after"] = executor.submit(eval, TRACE).result()
        found["began"] = executor.submit(eval, "__import__('sys').began").result()
    with otel_rl.rollout("two"), SPAWN.Pool(1) as pool:
        found["in a pool"] = pool.apply(eval, (TRACE,)) == eval(TRACE)
    with otel_rl.rollout("three"):
        pool = SPAWN.Pool(1)
    found["after in a pool"] = pool.apply(eval, (TRACE,))
    pool.terminate()
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the program has found."""
    folder = tmp_path_factory.mktemp("run")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environ = {**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_CHILDREN": "all"}
    done = subprocess.run(
        [LAUNCHER, sys.executable, program], cwd=folder, env=environ, stdout=subprocess.PIPE, timeout=240, check=True
    )
    return json.loads(done.stdout)


def test_calls_carry_nothing_before_a_process_of_a_rollout_was_started(found):
    assert found["carried"] == [False, False, False]


def test_calls_of_a_rollout_belong_to_it_and_later_ones_to_none(found):
    assert (found["inside"], found["after"]) == (True, 0)
    assert (found["in a pool"], found["after in a pool"]) == (True, 0)


def test_a_worker_that_a_call_starts_begins_in_no_rollout(found):
    assert found["began"] == 0
