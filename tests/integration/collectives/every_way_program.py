"""Issues collectives in every way that PyTorch has, on four ranks; rank 0 prints what was counted for each.

    torchrun --nproc-per-node=4 every_way_program.py RESULT

The result is a JSON file: way -> ``counted``, a list of (operation, group, size, source, calls), and ``issued``, how
many collectives the process groups have numbered meanwhile.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor, patch, sequence_numbers

trace.set_tracer_provider(TracerProvider())
metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
TorchDistributedInstrumentor().instrument(skip_dep_check=True)
dist.init_process_group("gloo")
RANK = dist.get_rank()
BOTH = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
MESH = BOTH["tp"]
OTHERS = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("pp", "ep", "cp"))
WHOLE = init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp"))
patch.kernels().install()


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))


def data() -> torch.Tensor:
    return torch.ones(4, 8)


def peer_to_peer() -> None:
    if RANK % 2 == 0:
        dist.send(data(), RANK + 1)
    else:
        dist.recv(data(), RANK - 1)


def batched() -> None:
    peer = RANK ^ 1
    operations = [dist.P2POp(dist.isend, data(), peer), dist.P2POp(dist.irecv, data(), peer)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def coalesced() -> None:
    with dist._coalescing_manager(async_ops=False):
        dist.all_reduce(data())
        dist.all_reduce(data())


def doubled_sum(given: torch.Tensor) -> torch.Tensor:
    return functional.all_reduce(given * 2, "sum", dist.group.WORLD) + 1


compiled = torch.compile(doubled_sum, backend="inductor", fullgraph=True)


def in_a_compiled_function() -> None:
    # The ranks whose collectives are not looked at need no compiler.
    function = compiled if RANK == 0 else doubled_sum
    function(data())


def in_each_dimension() -> None:
    for name in ("pp", "ep", "cp"):
        dist.all_reduce(data(), group=OTHERS.get_group(name))


def in_two_dimensions() -> Any:
    from torch.distributed.fsdp import fully_shard

    both = parallelize_module(model(), BOTH["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fully_shard(both, mesh=BOTH["dp"])
    return both


class Prepared:
    """Models whose construction issues collectives that are not counted here."""

    data_parallel = DistributedDataParallel(model())
    with_hook = DistributedDataParallel(model())
    with_builtin_hook = DistributedDataParallel(model())
    tensor_parallel = parallelize_module(model(), MESH, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    in_two_dimensions = in_two_dimensions()
    distributed = DTensor.from_local(data(), MESH, [Shard(0)])


Prepared.with_hook.register_comm_hook(None, default_hooks.allreduce_hook)
Prepared.with_builtin_hook._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)


def backward(which: Any) -> None:
    which(data()).sum().backward()


def fully_sharded() -> None:
    from torch.distributed.fsdp import fully_shard

    sharded = model()
    fully_shard(sharded, mesh=MESH)
    backward(sharded)


def fully_sharded_first_version() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    backward(FullyShardedDataParallel(model(), device_id=torch.device("cpu")))


WAYS = {
    "synchronous": lambda: dist.all_reduce(data()),
    "asynchronous": lambda: dist.all_reduce(data(), async_op=True).wait(),
    "peer_to_peer": peer_to_peer,
    "batched": batched,
    "coalesced": coalesced,
    "object": lambda: dist.all_gather_object([None] * 4, {"rank": RANK}),
    "barrier": dist.barrier,
    "functional": lambda: functional.all_reduce(data(), "sum", dist.group.WORLD) + 1,
    "functional_group_of_a_mesh": lambda: functional.all_gather_tensor(data(), 0, (MESH, 0)) + 1,
    "compiled": in_a_compiled_function,
    "dtensor": lambda: Prepared.distributed.redistribute(MESH, [Replicate()]).to_local() + 1,
    "tensor_parallel": lambda: backward(Prepared.tensor_parallel),
    "data_parallel": lambda: backward(Prepared.data_parallel),
    "data_parallel_with_a_hook_in_python": lambda: backward(Prepared.with_hook),
    "data_parallel_with_a_hook_in_c": lambda: backward(Prepared.with_builtin_hook),
    "fully_sharded": fully_sharded,
    "fully_sharded_first_version": fully_sharded_first_version,
    "fully_sharded_and_tensor_parallel": lambda: backward(Prepared.in_two_dimensions),
    "each_dimension_of_a_mesh": in_each_dimension,
    "dimension_of_all_ranks": lambda: dist.all_reduce(data(), group=WHOLE.get_group("dp")),
}


def counted_by(way: Any) -> dict[str, Any]:
    for _ in range(3):  # compiles, and builds what the first iterations build
        way()
    dist.barrier()
    recorder = patch.collectives().recorder
    recorder.reset()
    before = sequence_numbers.read()
    way()
    after = sequence_numbers.read()
    counted = [[*group, values[0]] for group, values in recorder.values() if values[0]]
    return {"counted": counted, "issued": sum(after[group] - before[group] for group in before)}


left_out = sys.argv[2:]
result = {name: counted_by(way) for name, way in WAYS.items() if name not in left_out}
if RANK == 0:
    Path(sys.argv[1]).write_text(json.dumps(result), encoding="utf-8")
for name in [name for name in vars(Prepared) if not name.startswith("__")]:
    delattr(Prepared, name)
gc.collect()
dist.destroy_process_group()
# Threads of gloo may abort a process at its exit, also after that: https://github.com/pytorch/pytorch/issues/190489
os._exit(0)
