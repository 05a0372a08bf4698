"""``torch.compile`` sees nothing of us: what Dynamo counts is the same with the collectives instrumented."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).with_name("compiled_program.py")


def run(mode, rings):
    environ = {**os.environ, "OTEL_RL_RING_DIR": str(rings)}
    done = subprocess.run([sys.executable, PROGRAM, mode], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    return json.loads(first), rest


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run("plain", tmp_path_factory.mktemp("rings"))[0]


@pytest.mark.parametrize(("collectives", "calls"), [("python", 48), ("all", 60)])
def test_a_compiled_program_has_no_extra_frame_graph_break_or_recompile(plain, collectives, calls, tmp_path):
    instrumented, counted = run(collectives, tmp_path)

    assert plain["frames"]["total"] > 0
    assert plain["graph_break"] > 0
    assert instrumented == plain
    # The collectives of compiled functions are counted all the same, and are in the ring with their waits.
    assert counted == [str(calls), str(2 * calls)]
