"""A rank that keeps the others waiting is named, or the report says that it cannot see the collectives."""

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
import sys, time, torch, otel_rl, torch.distributed as dist
import torch.distributed._functional_collectives as functional
kind, place = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(0)
late = dist.get_rank() == 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, given):
        between = self.first(given)
        if place == "backward" and late:
            between.register_hook(lambda gradient: time.sleep(0.1))
        return self.second(between)

model = Model()
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
if kind == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
for number in range(1, 9):
    with otel_rl.step(number):
        if place == "data" and late:
            time.sleep(0.1)
        model(torch.ones(4, 8)).sum().backward()
        for parameter in model.parameters():
            if kind == "python":
                dist.all_reduce(parameter.grad)
            if kind == "functional":
                parameter.grad = functional.all_reduce(parameter.grad, "sum", dist.group.WORLD) * 1
dist.destroy_process_group()
"""
NAMED = "Rank 1 makes the others wait"
LAST_STEPS = "Rank 1 worked longer than the fastest outside of all phases in "
NOT_SEEN = "steps of all ranks issued collectives that are not seen"


def _report(folder: Path, kind: str, place: str, collectives: str = "auto") -> str:
    (folder / "train.py").write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    command = [
        SCRIPTS / "opentelemetry-instrument",
        SCRIPTS / "torchrun",
        "--standalone",
        "--nproc-per-node=2",
        "train.py",
        kind,
        place,
    ]
    subprocess.run(
        command,
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_EXIT_TIMEOUT": "30",
            "OTEL_RL_COLLECTIVES": collectives,
            "OTEL_RL_RING": "on",
            "OTEL_RL_RING_DIR": str(folder),
        },
        check=True,
        timeout=300,
    )
    assert main(["report", str(folder / "otel-rl" / "run"), "-o", str(folder / "page.html")]) == 0
    return " ".join((folder / "page.html").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("kind", "place"),
    [("ddp", "data"), ("ddp", "backward"), ("python", "data"), ("fsdp", "data"), ("functional", "data")],
)
def test_the_late_rank_is_named(tmp_path: Path, kind: str, place: str) -> None:
    if kind == "fsdp" and not hasattr(fsdp, "fully_shard"):
        pytest.skip("FSDP2 has been public since torch 2.6")
    page = _report(tmp_path, kind, place)

    assert NAMED in page
    assert LAST_STEPS in page
    # Functional collectives are counted after three steps.
    assert (f"6 of 16 {NOT_SEEN}" in page) is (kind == "functional")


def test_where_only_pythons_are_watched_the_report_says_what_it_cannot_see(tmp_path: Path) -> None:
    page = _report(tmp_path, "ddp", "data", collectives="python")

    assert f"16 of 16 {NOT_SEEN}" in page
    assert "<li>late ranks: the collectives of its steps are not seen</li>" in page
