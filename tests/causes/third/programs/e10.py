"""A loop of policy gradient with warm-up, evaluation and checkpoints; figures go to TensorBoard."""

from __future__ import annotations

import math
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(4)
STEPS, WARM = 70, 10
policy = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 12))
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min((step + 1) / WARM, 0.55 + 0.45 * math.cos(math.pi * step / STEPS))
)
writer = SummaryWriter("tb")
rule = torch.randn(16, 12)


def rollouts(number: int):
    prompts = torch.randn(number, 16)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    return chances, answers, rewards


def evaluate(step: int) -> None:
    time.sleep(0.6)
    with torch.no_grad():
        writer.add_scalar("eval/reward", rollouts(512)[2].mean().item(), step)


for step in range(1, STEPS + 1):
    # The first batches wait for the caches of the sampler.
    time.sleep({1: 2.5, 2: 1.0, 3: 0.6}.get(step, 0.22) + 0.04 * torch.rand(()).item())
    chances, answers, rewards = rollouts(128)
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean() - 0.002 * chances.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    writer.add_scalar("train/lr", schedule.get_last_lr()[0], step)
    schedule.step()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("train/entropy", chances.entropy().mean().item(), step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
    if step % 10 == 0:
        evaluate(step)
    if step % 20 == 0:
        torch.save({"policy": policy.state_dict(), "step": step}, f"checkpoint-{step}.pt")
        time.sleep(0.8)
writer.close()
