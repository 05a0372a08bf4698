"""Captures an all-reduce in a CUDA graph, and replays it in steps."""

from __future__ import annotations

import torch
import torch.distributed as dist

import otel_rl

device = torch.device("cuda", 0)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
message, graph = torch.ones(1024, device=device), torch.cuda.CUDAGraph()
dist.all_reduce(message)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    dist.all_reduce(message)
for number in range(1, 9):
    with otel_rl.step(number):
        graph.replay()
        dist.all_reduce(message)
torch.cuda.synchronize()
print(float(message.sum()))
dist.destroy_process_group()
