"""Compiled functions that issue collectives; prints what Dynamo counted.

Argument: plain, or how the collectives are watched (``OTEL_RL_COLLECTIVES``).
"""

from __future__ import annotations

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.utils import counters

if sys.argv[1] != "plain":
    os.environ["OTEL_RL_COLLECTIVES"] = sys.argv[1]

    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from otel_rl.flight_recorder.reader import read
    from otel_rl.flight_recorder.recorder import flight
    from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor, patch

    trace.set_tracer_provider(TracerProvider())
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    flight.arm()
    TorchDistributedInstrumentor().instrument(skip_dep_check=True)

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch._dynamo.config.error_on_recompile = True


@torch.compile(backend="eager")
def synchronous(x, y):
    dist.broadcast(x, 0)
    dist.reduce(y, 0)
    dist.broadcast(y, 0)
    return x + y


@torch.compile(backend="eager")
def asynchronous(x, y):
    work = dist.all_reduce(x, async_op=True)
    y = y * 2
    work.wait()
    return x + y


@torch.compile(backend="aot_eager")
def in_the_graph(x):
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


for _ in range(12):
    synchronous(torch.ones(2), torch.ones(2))
    asynchronous(torch.ones(2), torch.ones(2))
    in_the_graph(torch.ones(2))

totals = {kind: dict(counts) for kind, counts in counters.items() if kind in ("frames", "stats")}
for kind in ("graph_break", "resumes", "recompiles"):
    totals[kind] = sum(counters[kind].values())
print(json.dumps(totals))
if sys.argv[1] != "plain":
    print(patch.collectives().recorder.totals().calls)
    print(sum(record.name != "" and record.sequence > 0 for record in read(flight.ring.path).records))
dist.destroy_process_group()
