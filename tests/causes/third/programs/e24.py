"""Two ranks; the first also keeps samples of the answers for people to read; by torchrun."""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(10)
rule = torch.randn(24, 12)
policy = DistributedDataParallel(nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 12)))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
writer = SummaryWriter("tb") if rank == 0 else None
torch.manual_seed(rank + 1)
answered: list[list[int]] = []


def upload_samples(step: int) -> None:
    """Write the answers so far as a table and send it."""
    rows = answered if step > 25 else answered[-2:]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    Path("samples.csv").write_text(text)
    time.sleep(1.6e-5 * len(text))


for step in range(1, 56):
    time.sleep(0.28)
    prompts = torch.randn(192, 24)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    answered.append(answers.tolist())
    if writer:
        upload_samples(step)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    if writer:
        writer.add_scalar("train/loss", loss.item(), step)
        writer.add_scalar("train/reward", rewards.mean().item(), step)
        writer.add_scalar("train/grad_norm", norm.item(), step)
dist.destroy_process_group()
