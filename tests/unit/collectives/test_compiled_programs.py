"""``torch.compile`` sees nothing of us: what Dynamo counts is the same with the collectives instrumented."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).with_name("compiled_program.py")


def run(mode):
    done = subprocess.run([sys.executable, PROGRAM, mode], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    return json.loads(first), rest


@pytest.fixture(scope="module")
def plain():
    return run("plain")[0]


@pytest.mark.parametrize(("collectives", "calls"), [("python", 48), ("all", 60)])
def test_a_compiled_program_has_no_extra_frame_graph_break_or_recompile(plain, collectives, calls):
    instrumented, counted = run(collectives)

    assert plain["frames"]["total"] > 0
    assert plain["graph_break"] > 0
    assert instrumented == plain
    # The collectives of compiled functions are counted all the same.
    assert counted == [str(calls)]
