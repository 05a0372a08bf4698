"""What it costs that PyTorch times each collective of NCCL, and that its flight recorder is read.

    python benchmarks/nccl_timing.py [--output FILE]

One rank on one GPU: it waits for no other rank, so these are times of PyTorch and NCCL themselves. Two groups of each
process take turns; PyTorch times the collectives of one of them. *Launch*: host time of `all_reduce`, which only
enqueues. *Step*: eight products of matrices with an `all_reduce` of 16 MiB after each, as a backward pass has them.
Last, the time for which a dump holds the interpreter, and that of reading its rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

from figures import bootstrap, environment, finish, ratio_of_medians

PROCESSES = 3
SIZES = {"4 KiB": 1 << 10, "64 MiB": 1 << 24}
#: Rows of PyTorch's flight recorder, its default.
ROWS = 2000
_SETUP = """
import json, os, sys, time, torch, torch.distributed as dist
device = torch.device("cuda", 0)
torch.cuda.set_device(device)
dist.init_process_group("nccl", init_method="file://" + sys.argv[1], rank=0, world_size=1, device_id=device)
now = time.perf_counter
"""
_COLLECTIVES = """
groups = {"bare": dist.new_group([0]), "timed": dist.new_group([0])}
groups["timed"]._enable_collectives_timing()
orders = [list(groups), list(groups)[::-1]] * 20

def launch(message, group, calls):
    began = now()
    for _ in range(calls):
        dist.all_reduce(message, group=group)
    launched = now()
    torch.cuda.synchronize()
    return (launched - began) / calls

left, right = (torch.randn(4096, 4096, device=device, dtype=torch.bfloat16) for _ in range(2))
gradient = torch.ones(1 << 22, device=device)

def step(group):
    began = now()
    works = []
    for _ in range(8):
        left @ right
        works.append(dist.all_reduce(gradient, group=group, async_op=True))
    for work in works:
        work.wait()
    torch.cuda.synchronize()
    return now() - began

samples = {}
for name, length in json.loads(sys.argv[2]).items():
    message = torch.ones(length, device=device)
    for group in groups.values():
        launch(message, group, 1000)
    pairs = [{how: launch(message, groups[how], 200) for how in order} for order in orders]
    samples[name] = [(pair["timed"], pair["bare"]) for pair in pairs]
for group in groups.values():
    for _ in range(20):
        step(group)
pairs = [{how: step(groups[how]) for how in order} for order in orders * 4]
samples["step"] = [(pair["timed"], pair["bare"]) for pair in pairs]
print(json.dumps(samples))
dist.destroy_process_group()
"""
_DUMPS = """
from otel_rl.collectives.torch_entries import NewEntries
message, count = torch.ones(1024, device=device), int(os.environ["TORCH_FR_BUFFER_SIZE"])
for _ in range(count):
    dist.all_reduce(message)
torch.cuda.synchronize()
# The watchdog looks at what is over ten times a second.
time.sleep(1)
dumps, reads = [], []
for _ in range(10):
    began = now()
    dump = torch._C._distributed_c10d._dump_nccl_trace(True, False, False)
    dumps.append(now() - began)
    began = now()
    timed, missed = NewEntries().read(dump)
    reads.append(now() - began)
print(json.dumps({"dump": dumps, "read": reads, "timed": len(timed), "missed": missed}))
dist.destroy_process_group()
"""


def _run(program: str, *arguments: str, **variables: str) -> dict[str, Any]:
    kept = {name: value for name, value in environment().items() if not name.startswith(("TORCH_", "NCCL_"))}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _SETUP + program, f"{folder}/store", *arguments],
            env={**kept, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure, and print."""
    figures: dict[str, Any] = {}
    runs = [_run(_COLLECTIVES, json.dumps(SIZES)) for _ in range(PROCESSES)]
    samples = {name: [pair for run in runs for pair in run[name]] for name in runs[0]}
    for name in SIZES:
        for place, how in enumerate(("timed", "bare")):
            figures[f"{name}, {how}, us"] = bootstrap([pair[place] * 1e6 for pair in samples[name]], median)
    figures["step, ratio"] = ratio_of_medians(samples["step"])
    dumps = _run(_DUMPS, TORCH_NCCL_ENABLE_TIMING="1", TORCH_FR_BUFFER_SIZE=str(ROWS))
    for part in ("dump", "read"):
        figures[f"{ROWS} entries, {part}, ms"] = bootstrap([value * 1e3 for value in dumps[part]], median)
    return finish("nccl_timing", figures, {"pairs": samples, "dumps": dumps}, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
