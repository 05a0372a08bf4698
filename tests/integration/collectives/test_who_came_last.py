"""Who came last by the durations of PyTorch's flight recorder: of two ranks on gloo, whose own stand in for NCCL's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unit.report.made_up_jobs import examined

if TYPE_CHECKING:
    from otel_rl.report.core.finding import Finding

SCRIPTS = Path(sys.executable).parent
#: Gloo's entries have no durations: they get those of the calls, and the name of the other back end.
PROGRAM = """
import pickle, sys, time, torch, otel_rl, torch.distributed as dist
from torch._C import _distributed_c10d as recorder
late, milliseconds = int(sys.argv[1]), []

def dump(*arguments):
    document = pickle.loads(recorder._dump_fr_trace(*arguments))
    for entry, duration in zip(document["entries"], milliseconds):
        entry["duration_ms"] = duration
    return pickle.dumps(document)

recorder._dump_nccl_trace = dump
dist.distributed_c10d.get_backend_config = lambda group=None: "cuda:nccl"
dist.init_process_group("gloo")
message = torch.ones(4)
for number in range(1, 16):
    with otel_rl.step(number):
        time.sleep(0.06 if dist.get_rank() == late else 0.01)
        began = time.perf_counter()
        dist.all_reduce(message)
        milliseconds.append((time.perf_counter() - began) * 1e3)
dist.destroy_process_group()
"""


def _late_ranks(folder: Path, late: int) -> tuple[list[Finding], str]:
    """Run two ranks of which ``late`` comes last; return the findings, and what the check on late ranks says."""
    (folder / "train.py").write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON", "TORCH_"))}
    # The hosts are not asked: of NCCL they know nothing.
    ours = {
        "OTEL_RL_RUN_ID": "run",
        "OTEL_RL_NCCL_TIMING": "on",
        "OTEL_RL_COLLECTIVES": "off",
        "OTEL_RL_RING": "off",
        "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [SCRIPTS / "opentelemetry-instrument", SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [*command, "train.py", str(late)],
        cwd=folder,
        env={**environ, **ours},
        check=True,
        timeout=300,
    )
    overview = examined(folder / "otel-rl" / "run")
    (check,) = (check for check in overview.checks if check.what == "late ranks")
    return [finding for finding in overview.findings if finding.code == "late_rank"], check.detail


def test_the_rank_that_came_last_is_named_with_what_the_others_waited_at_most(tmp_path: Path) -> None:
    (finding,), said = _late_ranks(tmp_path, 1)

    assert finding.ranks == [1]
    assert finding.text.startswith("Rank 1 came last in ")
    assert "at most" in finding.text
    assert said == "15 collectives of NCCL, timed by all their ranks"
