"""A straggler in a DDP program: the report says that it cannot see the collectives, and not that all is well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.cli import main

SCRIPTS = Path(sys.executable).parent
PROGRAM = """
import time, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
model = torch.nn.parallel.DistributedDataParallel(model) if {ddp} else model
for number in range(1, 6):
    with otel_rl.step(number):
        if dist.get_rank() == 1:
            time.sleep(0.05)
        model(torch.ones(4, 8)).sum().backward()
        if not {ddp}:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
dist.destroy_process_group()
"""


def _report(folder: Path, *, ddp: bool) -> str:
    (folder / "train.py").write_text(PROGRAM.format(ddp=ddp))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    command = [
        SCRIPTS / "opentelemetry-instrument",
        SCRIPTS / "torchrun",
        "--standalone",
        "--nproc-per-node=2",
        "train.py",
    ]
    subprocess.run(
        command,
        cwd=folder,
        env={**environ, "OTEL_RL_RUN_ID": "run", "OTEL_RL_EXIT_TIMEOUT": "30"},
        check=True,
        timeout=300,
    )
    assert main(["report", str(folder / "otel-rl" / "run"), "-o", str(folder / "page.html")]) == 0
    return " ".join((folder / "page.html").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("ddp", [True, False], ids=["ddp", "python"])
def test_a_straggler_is_named_or_said_to_be_out_of_sight(tmp_path: Path, ddp: bool) -> None:
    page = _report(tmp_path, ddp=ddp)

    assert "Nothing stands out" not in page
    assert ("10 of 10 steps issued collectives that are not seen" in page) is ddp
    assert ddp or "Rank 1 makes the others wait" in page
