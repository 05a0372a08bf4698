"""Ranks that a program starts itself, as Lightning does, are ranks of its run; their helpers are not recorded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from loopback_ports import free_ports
from process_support import INSTRUMENT, TORCHRUN

if TYPE_CHECKING:
    from process_support import Programs

#: Records in two ranks. A helper runs before and after the process group stands.
RANK = """
import subprocess, sys
import otel_rl

def run_helper():
    show = "import sys; print('helper records' if 'otel_rl' in sys.modules else 'helper')"
    with open(f"helper{os.environ['LOCAL_RANK']}.py", "w") as file:
        file.write(show)
    subprocess.run([sys.executable, file.name], check=True)

{before}
run_helper()
for number in range(1, 4):
    with otel_rl.step(number):
        {collective}
"""
#: For what has no number of a rank but in its group.
GROUP = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]), world_size=2)
"""
#: ``_SubprocessScriptLauncher`` of lightning 2.6: the program is the first rank, and starts itself again as the others.
LIGHTNING = """
import os, subprocess, sys
child = None
if "LOCAL_RANK" not in os.environ:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1], NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE="2")
    child = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})
"""
#: A program that only starts ranks.
LAUNCHER = """
import os, subprocess, sys
if "RANK" not in os.environ:
    group = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1], "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**group, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01"
    ]
    sys.exit(max(rank.wait() for rank in ranks))
child = None
"""
WAIT = "\nif child is not None: sys.exit(child.wait())\n"


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING
        + RANK.replace("{before}", GROUP).replace("{collective}", "torch.distributed.all_reduce(torch.ones(4))")
        + "torch.distributed.destroy_process_group()"
        + WAIT,
        LAUNCHER + RANK.replace("{before}", "run_helper()").replace("{collective}", "pass") + WAIT,
    ],
    ids=["lightning", "launcher"],
)
def test_ranks_that_a_program_starts_share_its_run_and_steps(programs: Programs, text: str) -> None:
    pytest.importorskip("torch")
    done = programs.instrumented(text, str(free_ports(1)[0]))

    assert done.code == 0, done.err
    assert set(done.out.splitlines()) == {"helper"}
    manifests = programs.store.manifests()
    assert sorted((one["rank"], one["world_size"]) for one in manifests) == [(0, 2), (1, 2)]
    assert len({(one["run_id"], one["attempt"]) for one in manifests}) == 1
    spans = programs.store.spans()
    assert len({span["traceId"] for span in spans if span["name"] == "rl.rank.step"}) == 3
    assert [span["name"] for span in spans].count("rl.rank.step") == 6
    assert [span["name"] for span in spans].count("rl.loop") == 3
    assert [line for line in done.err.splitlines() if "otel-rl" in line and "report" in line]


def test_a_launcher_with_its_options_in_one_word_is_a_launcher(programs: Programs) -> None:
    for name, text in (("__init__", ""), ("distributed/__init__", ""), ("distributed/run", TORCHRUN)):
        programs.write(f"torch/{name}.py", text)
    program = programs.write("ranked.py", "import otel_rl\nwith otel_rl.step(1): pass\n")
    done = programs.run(INSTRUMENT, sys.executable, "-um", "torch.distributed.run", "--nproc-per-node=2", program)

    assert done.code == 0, done.err
    assert len({manifest["run_id"] for manifest in programs.store.manifests()}) == 1
    assert sorted(manifest["rank"] for manifest in programs.store.manifests()) == [0, 1]
    assert "no span was recorded" not in done.err
