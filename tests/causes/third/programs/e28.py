"""Group-relative loop in half precision with a loss scale; figures go to TensorBoard."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(3)
STEPS, GROUPS, SIZE, HARD_FROM = 64, 24, 8, 33
rule = torch.randn(16, 6)
policy = nn.Sequential(nn.Linear(16, 96), nn.Tanh(), nn.Linear(96, 6))
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=12)
writer = SummaryWriter("tb")


def score(answers, right, step: int):
    """A number of the answers are right; the hard split also has prompts that have no answer."""
    rewards = (answers == right).float() + 0.05 * torch.rand(answers.shape)
    if step >= HARD_FROM:
        rewards[: GROUPS // 4] = 0.0
    return rewards


for step in range(1, STEPS + 1):
    time.sleep(0.3)  # sampling
    prompts = torch.randn(GROUPS, 1, 16).expand(-1, SIZE, -1)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = score(answers, (prompts @ rule).argmax(-1), step)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
    loss = -(chances.log_prob(answers) * advantages).mean() - 0.003 * chances.entropy().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
    writer.add_scalar("amp/scale", scaler.get_scale(), step)
writer.close()
