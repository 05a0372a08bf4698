"""Two ranks with batches of answers whose lengths are drawn anew for each; started by torchrun."""

from __future__ import annotations

import random
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
lengths = random.Random(40 + rank)
torch.manual_seed(rank + 1)
for step in range(1, 56):
    tokens = [min(int(lengths.lognormvariate(4.6, 0.7)), 600) for _ in range(16)]
    time.sleep(0.1 + 1.1e-4 * sum(tokens) + (1.2 if step == 1 else 0.0))
    prompts = torch.randn(128, 24)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    if writer:
        writer.add_scalar("train/loss", loss.item(), step)
        writer.add_scalar("train/reward", rewards.mean().item(), step)
        writer.add_scalar("train/grad_norm", norm.item(), step)
        writer.add_scalar("train/tokens", sum(tokens), step)
dist.destroy_process_group()
