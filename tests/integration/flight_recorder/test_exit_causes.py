"""Real parents tell how their children ended: torchrun's agent, and a program that uses multiprocessing.

What the agent tells of a rank that was killed is in `test_postmortem_of_ranks.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_rl.ranks.postmortem import examine
from otel_rl.ranks.postmortem.text import as_json
from otel_rl.store.reader.errors import UnusableInput

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
RANKS = """
import os, signal, sys, time, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
with otel_rl.step(1):
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 1:
        {how}
    time.sleep(1000)
"""
#: Child 0 ends in order, child 1 is killed and child 2 exits, both in a step.
CHILDREN = """
import multiprocessing, os, signal, sys, otel_rl

def work(number):
    with otel_rl.step(1):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 2:
            os._exit(3)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=work, args=(number,)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children])
"""
#: The first child is killed, which ends the other one.
SPAWN = """
import os, signal, sys, time, torch.multiprocessing, otel_rl

def work(number):
    with otel_rl.step(1):
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)

if __name__ == "__main__":
    try:
        torch.multiprocessing.spawn(work, nprocs=2)
    except torch.multiprocessing.ProcessExitedException as error:
        print(error.exit_code)
"""


class Program:
    """A program under ``opentelemetry-instrument``, run to its end."""

    def __init__(self, folder: Path, program: str, *launcher: str, **variables: str) -> None:
        self.folder, self.rings = folder, folder / "rings"
        self.rings.mkdir()
        (folder / "program.py").write_text(program)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        settings = {"OTEL_RL_RUN_ID": "run", "OTEL_RL_RING": "on", "OTEL_RL_RING_DIR": str(self.rings)}
        self.done = subprocess.run(
            [SCRIPTS / "opentelemetry-instrument", *launcher, "program.py"],
            cwd=folder,
            env={**environ, **settings, **variables},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def ranks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = as_json(examine(self.folder / "otel-rl", self.rings))["ranks"]
        return found

    def events(self) -> list[dict[str, Any]]:
        found = []
        for file in self.folder.glob("otel-rl/run/*/logs*.jsonl"):
            for line in map(json.loads, file.read_text().splitlines()):
                scopes = [scope for resource in line["resourceLogs"] for scope in resource["scopeLogs"]]
                found += [record for scope in scopes for record in scope["logRecords"]]
        return [record for record in found if record.get("eventName") == "rl.process.exit"]


def _torchrun(folder: Path, how: str, **variables: str) -> Program:
    torchrun = (str(SCRIPTS / "torchrun"), "--standalone", "--nproc-per-node=2")
    return Program(folder, RANKS.format(how=how), *torchrun, **variables)


def test_the_status_of_a_rank_lies_beside_the_rings_or_the_undelivered_where_telemetry_goes_to_a_collector(
    tmp_path: Path,
) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    program = _torchrun(tmp_path, "os._exit(3)", **endpoint)
    # The ends lie in the run's folder if what no collector took has made one before.
    files = tmp_path / "otel-rl"
    found = as_json(examine(files if list(files.rglob("*.exits")) else program.rings, program.rings))["ranks"]
    (second,) = [one for one in found if one["rank"] == 1]
    assert (second["state"], second["exit"]["status"]) == ("gone", 3)
    assert second["cause"].startswith("exited with status 3 (reported by torchrun's agent, pid ")


def test_without_rings_the_message_says_how_ranks_ended(tmp_path: Path) -> None:
    program = _torchrun(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", OTEL_RL_RING="off")
    with pytest.raises(UnusableInput, match=r"rank 1 killed by SIGKILL \(reported by torchrun's agent, pid"):
        examine(tmp_path / "otel-rl", program.rings)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_parent_tells_how_its_children_of_multiprocessing_ended(tmp_path: Path, method: str) -> None:
    program = Program(tmp_path, CHILDREN.format(method=method), sys.executable)
    killed, exited = sorted((one for one in program.ranks() if one["exit"]), key=lambda one: int(one["exit"]["status"]))
    assert killed["cause"].startswith("killed by SIGKILL (reported by its multiprocessing parent, pid ")
    assert exited["cause"].startswith("exited with status 3 (reported by its multiprocessing parent, pid ")
    assert program.done.stdout == "[0, -9, 3]\n"
    events = sorted((record["body"]["stringValue"], record["severityText"]) for record in program.events())
    assert events == [
        ("child process exited with status 3", "ERROR"),
        ("child process killed by SIGKILL", "ERROR"),
    ]


def test_a_parent_tells_how_its_children_of_torch_multiprocessing_ended(tmp_path: Path) -> None:
    program = Program(tmp_path, SPAWN, sys.executable)
    assert program.done.stdout == "-9\n"
    causes = sorted(one["cause"].partition(" (")[0] for one in program.ranks())
    assert "killed by SIGKILL" in causes
    assert "child process killed by SIGKILL" in [record["body"]["stringValue"] for record in program.events()]
