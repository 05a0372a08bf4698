"""Real programs: where no ring can be made, where telemetry has no folder, and with forked children."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.flight_recorder.reader import read

SCRIPTS = Path(sys.executable).parent
PROGRAM = """
import os, sys, otel_rl
with otel_rl.step(1):
    if sys.argv[1] == "forks":
        child = os.fork()
        if child == 0:
            with otel_rl.step(2):
                sys.exit()
        os.waitpid(child, 0)
    if sys.argv[1] == "execs" and len(sys.argv) < 6:
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    if sys.argv[1] == "execs":
        print(*os.listdir("rings"))
print("done")
if sys.argv[1] == "raises":
    raise ValueError
"""


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    directory = tmp_path / "rings"
    directory.mkdir()
    return directory


def _run(folder: Path, how: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", sys.executable, "program.py", how],
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING_DIR": str(folder / "rings"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_a_directory_the_program_runs_one_line_says_so_and_the_state_is_degraded(tmp_path):
    done = _run(tmp_path, OTEL_RL_QUIET="true", OTEL_RL_STATUS_FILE=str(tmp_path / "status"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert "no flight recorder" in line
    assert json.loads((tmp_path / "status").read_text())["flight_recorder"]["state"] == "degraded"


def test_off_says_nothing_and_leaves_nothing(tmp_path, rings):
    done = _run(tmp_path, OTEL_RL_QUIET="true", OTEL_RL_RING="off")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert not [*rings.iterdir(), *tmp_path.glob("otel-rl/run/*/flight.ring")]


def test_a_program_that_replaces_itself_leaves_no_ring_of_those_before(tmp_path, rings):
    done = _run(tmp_path, "execs", OTEL_RL_CHILDREN="all")
    (ring,), last = (line.split() for line in done.stdout.splitlines())
    assert last == ["done"]
    # The first name that it asked for was free.
    assert re.fullmatch(r"otel-rl-run-.*-pid(\d+)-\1[.]ring", ring)
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize(("how", "left"), [("", 0), ("raises", 1)])
def test_a_ring_lies_beside_what_the_collector_did_not_take(tmp_path, rings, how, left):
    done = _run(
        tmp_path, how, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"
    )
    assert done.stdout == "done\n"
    # Beside what the collector did not take.
    [copy] = tmp_path.glob("otel-rl/run/*/flight.ring")
    assert ([read(copy).end_reason] if left else []) == ["uncaught ValueError"] * left
    assert list(rings.iterdir()) == []


def test_a_forked_child_leaves_a_copy_of_its_own(tmp_path, rings):
    assert _run(tmp_path, "forks").returncode == 0
    found = [read(path) for path in tmp_path.glob("otel-rl/run/*/flight.ring")]
    assert sorted(one.last_step[0] for one in found) == [1, 2]
    assert len({one.lifetime.pid for one in found}) == 2
    assert all(one.ended and not one.open for one in found if one.last_step[0] == 1)
    assert list(rings.iterdir()) == []
