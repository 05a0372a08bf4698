"""The cost of each test, as `make test` prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
DEAR = """
import os, subprocess, sys

BURN = "import time\\nwhile time.process_time() < 1.5: pass"


def test_dear():
    assert "OTEL_RL_TEST_COSTS" not in os.environ
    subprocess.run([sys.executable, "-c", BURN], check=True)


def test_cheap(): ...
"""


def test_the_cpu_time_of_a_program_counts_to_the_test_that_waited_for_it(tmp_path):
    (tmp_path / "test_x.py").write_text(DEAR)
    costs = tmp_path / "costs.jsonl"
    environ = {**os.environ, "PYTHONPATH": str(TESTS), "OTEL_RL_TEST_COSTS": str(costs)}
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "support.expensive_tests",
        "-p",
        "no:cacheprovider",
        "-q",
        "test_x.py",
    ]
    done = subprocess.run(pytest, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert "test_x.py::test_dear" in done.stdout
    assert "test_x.py::test_cheap" not in done.stdout
    seconds = {row["test"]: row["cpu"] for row in map(json.loads, costs.read_text().splitlines())}
    assert seconds["test_x.py::test_dear"] > 1.2  # the system counts ticks
    assert seconds["test_x.py::test_cheap"] < 1.2

    command = [sys.executable, TESTS / "support/expensive_tests.py", costs, "--folders"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[0].split("s of CPU, ")[1].split() == ["2", "tests:", Path(sys.prefix).name, "test_x.py"]
    assert "test_dear" in printed[-1]
