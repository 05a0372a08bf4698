"""A straggler in a DDP program: the report says that it cannot see the collectives, and not that all is well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed import fsdp

from otel_rl.cli import main

SCRIPTS = Path(sys.executable).parent
PROGRAM = """
import time, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
if "{kind}" == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
if "{kind}" == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
for number in range(1, 6):
    with otel_rl.step(number):
        if dist.get_rank() == 1:
            time.sleep(0.05)
        model(torch.ones(4, 8)).sum().backward()
        if "{kind}" == "python":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
dist.destroy_process_group()
"""


def _report(folder: Path, kind: str) -> str:
    (folder / "train.py").write_text(PROGRAM.format(kind=kind))
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


@pytest.mark.parametrize("kind", ["ddp", "python", "fsdp"])
def test_a_straggler_is_named_or_said_to_be_out_of_sight(tmp_path: Path, kind: str) -> None:
    if kind == "fsdp" and not hasattr(fsdp, "fully_shard"):
        pytest.skip("FSDP2 has been public since torch 2.6")
    page = _report(tmp_path, kind)

    assert "Nothing stands out" not in page
    assert ("10 of 10 steps of all ranks issued collectives that are not seen" in page) is (kind == "ddp")
    assert kind == "ddp" or "Rank 1 makes the others wait" in page
