"""A rank that keeps the others waiting is named, or the report says that it cannot see the collectives.

DDP and collectives of Python are in `test_several_late_ranks.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import late_rank_jobs
from torch.distributed import fsdp

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys, time, torch, otel_rl, torch.distributed as dist
import torch.distributed._functional_collectives as functional
kind = sys.argv[1]
dist.init_process_group("gloo")
torch.manual_seed(0)
late = dist.get_rank() == 1

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
if kind == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
for number in range(1, 9):
    with otel_rl.step(number):
        if late:
            time.sleep(0.2)
        model(torch.ones(4, 8)).sum().backward()
        for parameter in model.parameters():
            if kind == "functional":
                parameter.grad = functional.all_reduce(parameter.grad, "sum", dist.group.WORLD) * 1
dist.destroy_process_group()
"""
NAMED = "Rank 1 makes the others wait"
LAST_STEPS = "Rank 1 worked longer than the fastest outside of all phases in "
NOT_SEEN = "steps of all ranks issued collectives that are not seen"


def _report(folder: Path, kind: str, collectives: str = "auto") -> str:
    (folder / "train.py").write_text(PROGRAM)
    late_rank_jobs.run(folder, 2, "train.py", kind, OTEL_RL_COLLECTIVES=collectives, OTEL_RL_EXIT_TIMEOUT="30")
    return late_rank_jobs.page(folder)


@pytest.mark.parametrize("kind", ["fsdp", "functional"])
def test_the_late_rank_is_named(tmp_path: Path, kind: str) -> None:
    if kind == "fsdp" and not hasattr(fsdp, "fully_shard"):
        pytest.skip("FSDP2 has been public since torch 2.6")
    page = _report(tmp_path, kind)

    assert NAMED in page
    assert LAST_STEPS in page
    # Functional collectives are counted after three steps.
    assert (f"6 of 16 {NOT_SEEN}" in page) is (kind == "functional")


def test_where_only_pythons_are_watched_the_report_says_what_it_cannot_see(tmp_path: Path) -> None:
    page = _report(tmp_path, "ddp", collectives="python")

    assert f"16 of 16 {NOT_SEEN}" in page
    assert "<li>late ranks: the collectives of its steps are not seen</li>" in page
