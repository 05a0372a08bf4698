"""CPU time that watching collectives adds to a step, in each way, against the step without us.

    python benchmarks/collective_step.py [--rounds 60] [--output FILE]

Two ranks over gloo on this machine; the figures are those of rank 0. Waiting for the other rank takes no CPU time.

A step is too noisy to show half a percent. So the added CPU time of one collective is taken from loops of them, by
source, over a backend that does nothing, each under every way, one right after the other in turning order. A figure
is 1 + the sum over the step's collectives / the step's CPU time without us. The loop of the reducer calls the method of
the process group past our replacement. The bounds are a bootstrap over rounds. The flight recorder is on, as it is by
default.

Steps: ``all_reduce``, one of 4 MiB; ``ddp``, a training step of a model of 24 blocks in buckets of 1 MiB; ``fsdp``, the
same model, each block sharded by FSDP2. Ways: ``python`` counts what Python issues, ``all`` everything; ``auto`` is
``all`` for ddp and ``python`` for the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from figures import BIN, bootstrap, finish
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers the backend

from otel_rl.flight_recorder.copies import Copies
from otel_rl.flight_recorder.recorder import flight
from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor, patch

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Source -> way -> CPU seconds of a loop, one value per round.
    Loops = dict[str, dict[str, list[float]]]

WAYS = ("none", "python", "all")
LIMITS = {"python": 1.005, "auto": 1.005, "all": 1.02}
#: What `auto` comes to in a step.
AUTO = {"all_reduce": "python", "ddp": "all", "fsdp": "python"}
BLOCKS, WIDTH, BATCH = 24, 256, 256
MESSAGE = 4 << 20
#: As C++ code reaches it.
ALL_REDUCE = dist.ProcessGroup.__dict__["allreduce"].__get__(None, dist.ProcessGroup)
#: Option of the ranks: where their samples go.
RANK = "--rank"
#: Runs of a step, and small collectives, in one sample.
RUNS, COLLECTIVES = 4, 200


def model() -> Any:
    """Blocks of two layers."""
    torch.manual_seed(0)
    blocks = (
        torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH))
        for _ in range(BLOCKS)
    )
    return torch.nn.Sequential(*blocks)


def training(prepared: Any) -> Callable[[], None]:
    """Run a training step."""
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-3)
    given = torch.ones(BATCH, WIDTH)

    def step() -> None:
        prepared(given).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps() -> dict[str, Callable[[], None]]:
    """Return the steps by name."""
    message = torch.zeros(MESSAGE // 4)

    def all_reduce() -> None:
        dist.all_reduce(message)

    sharded = model()
    for block in sharded:
        fully_shard(block, mesh=init_device_mesh("cpu", (2,)))
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=1)
    return {"all_reduce": all_reduce, "ddp": training(wrapped), "fsdp": training(fully_shard(sharded))}


def watch(way: str) -> None:
    """Begin to watch in one of the ways."""
    instrumentor = TorchDistributedInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    if way != "none":
        instrumentor.instrument(skip_dep_check=True)
    if way == "all":
        patch.kernels().install()


def loops() -> dict[str, Callable[[], None]]:
    """Return collectives by their source, over a backend that does nothing."""
    small, group = torch.zeros(4), dist.new_group(backend="fake")
    tensors, options = [small], dist.AllreduceOptions()

    def python() -> None:
        for _ in range(COLLECTIVES):
            dist.all_reduce(small, group=group)

    def functional_ones() -> None:
        for _ in range(COLLECTIVES):
            functional.wait_tensor(functional.all_reduce(small, "sum", group))

    def reducers() -> None:
        for _ in range(COLLECTIVES):
            ALL_REDUCE(group, tensors, options)

    return {"python": python, "functional": functional_ones, "reducer": reducers}


def seconds(run: Callable[[], None], times: int = 1) -> float:
    """CPU seconds of the process for a run."""
    run()  # warms up
    began = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - began) / times


def calls_of(step: Callable[[], None]) -> Counter[str]:
    """How many collectives a step issues, by source."""
    watch("all")
    step()
    recorder = patch.collectives().recorder
    recorder.reset()
    step()
    calls: Counter[str] = Counter()
    for group, values in recorder.values():
        calls[group.source] += values[0]
    return calls


def measure(runs: dict[str, Callable[[], None]], rounds: int) -> Loops:
    """CPU seconds of each loop under each way."""
    samples: Loops = {name: {way: [] for way in WAYS} for name in runs}
    for number in range(rounds):
        turn = number % len(WAYS)
        for name, run in runs.items():
            for way in WAYS[turn:] + WAYS[:turn]:
                watch(way)
                samples[name][way].append(seconds(run))
    watch("none")
    return samples


def added(ways: dict[str, list[float]], way: str) -> list[float]:
    """CPU seconds that the way adds to a loop, by round."""
    return [ours - bare for ours, bare in zip(ways[way], ways["none"], strict=True)]


def counted(way: str, calls: dict[str, int], loops: Loops, step: list[float]) -> dict[str, float]:
    """1 + the CPU time that the way adds to the step's collectives / the step's."""

    def ratio(drawn: list[Any]) -> float:
        whole, *columns = zip(*drawn, strict=True)
        each = [number * statistics.median(column) for number, column in zip(calls.values(), columns, strict=True)]
        return 1 + sum(each) / COLLECTIVES / statistics.median(whole)

    return bootstrap(list(zip(step, *(added(loops[source], way) for source in calls), strict=True)), ratio)


def run_rank(rounds: int, output: Path) -> None:
    """One of the ranks; rank 0 writes the samples."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    flight.arm()
    found: dict[str, Any] = {"loops": measure(loops(), rounds)}
    prepared = steps()
    found["steps"] = {name: [seconds(step, RUNS) for _ in range(rounds)] for name, step in prepared.items()}
    found["calls"] = {name: calls_of(step) for name, step in prepared.items()}
    watch("none")
    # What a process does at its end.
    Copies().finish(None, None)
    if dist.get_rank() == 0:
        output.write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(RANK, type=Path, help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.rank is not None:
        run_rank(options.rounds, options.rank)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "samples.json")
        torchrun = [BIN / "torchrun", "--standalone", "--nproc-per-node=2"]
        command = [*torchrun, __file__, "--rounds", str(options.rounds), RANK, output]
        subprocess.run(command, check=True, stdout=sys.stderr)
        samples = json.loads(output.read_text(encoding="utf-8"))
    figures: dict[str, Any] = {}
    for source, ways in samples["loops"].items():
        each = statistics.median(added(ways, "all")) / COLLECTIVES
        figures[f"{source} collective, added by all, us"] = {"value": round(each * 1e6, 2)}
    for name, calls in samples["calls"].items():
        for setting, limit in LIMITS.items():
            way = AUTO[name] if setting == "auto" else setting
            figure: dict[str, Any] = counted(way, calls, samples["loops"], samples["steps"][name])
            figures[f"{name}, {setting}, counted CPU"] = figure | {"limit": limit, "judged": figure["upper_95"]}
    return finish("collective_step", figures, samples, __doc__)


if __name__ == "__main__":
    sys.exit(main())
