"""Two ranks; the first evaluates and saves each twelve steps while the other waits at a barrier; by torchrun."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(30)
rule = torch.randn(24, 12)
policy = DistributedDataParallel(nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 12)))
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 8))
writer = SummaryWriter("tb") if rank == 0 else None
torch.manual_seed(rank + 1)


def evaluate(step: int) -> None:
    time.sleep(0.9)
    with torch.no_grad():
        prompts = torch.randn(512, 24)
        right = (policy.module(prompts).argmax(1) == (prompts @ rule).argmax(1)).float().mean().item()
    writer.add_scalar("eval/accuracy", right, step)
    torch.save(policy.module.state_dict(), f"checkpoint-{step}.pt")


for step in range(1, 61):
    time.sleep(0.26 + 0.05 * torch.rand(()).item())
    prompts = torch.randn(160, 24)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if writer:
        writer.add_scalar("train/loss", loss.item(), step)
        writer.add_scalar("train/reward", rewards.mean().item(), step)
        writer.add_scalar("train/grad_norm", norm.item(), step)
    if step % 12 == 0:
        if rank == 0:
            evaluate(step)
        dist.barrier()
dist.destroy_process_group()
