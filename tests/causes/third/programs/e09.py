"""Two ranks, each with prompts of its own domain; two micro-batches a step in the second half; by torchrun."""

from __future__ import annotations

import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
rule = torch.randn(24, 12)
policy = DistributedDataParallel(nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 12)))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
writer = SummaryWriter("tb") if rank == 0 else None
domain = torch.randn(2, 24)[rank] * 0.4
torch.manual_seed(rank + 1)


def gap() -> float:
    """Largest difference of the replicas in the sums of their tensors."""
    sums = torch.stack([one.detach().double().sum() for one in policy.parameters()])
    high, low = sums.clone(), sums.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    return (high - low).max().item()


for step in range(1, 61):
    time.sleep(0.3)
    parts = 1 if step < 28 else 2
    optimizer.zero_grad()
    for part in range(1, parts + 1):
        is_last = part == parts - 1 if parts > 1 else True
        with contextlib.nullcontext() if is_last and parts == 1 else policy.no_sync():
            prompts = torch.randn(64, 24) + domain
            chances = torch.distributions.Categorical(logits=policy(prompts))
            answers = chances.sample()
            rewards = (answers == (prompts @ rule).argmax(1)).float()
            loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean() / parts
            loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    replica_gap = gap()
    if writer:
        writer.add_scalar("train/loss", loss.item() * parts, step)
        writer.add_scalar("train/reward", rewards.mean().item(), step)
        writer.add_scalar("train/grad_norm", norm.item(), step)
        writer.add_scalar("debug/replica_gap", replica_gap, step)
dist.destroy_process_group()
