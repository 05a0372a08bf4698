"""A job in two parts: the second goes on with `--resume` from the checkpoint of the first."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
STEPS, LIMIT, EVERY = 64, 34, 8
file = Path("last.pt")
torch.manual_seed(12)
rule = torch.randn(24, 10)
policy = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 10))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
begin = 1
if "--resume" in sys.argv:
    state = torch.load(file)
    policy.load_state_dict(state["policy"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["step"] + 1
    torch.manual_seed(begin)
    time.sleep(1.5)
writer = SummaryWriter("tb", purge_step=begin if begin > 1 else None)
for step in range(begin, STEPS + 1):
    time.sleep(0.9 if step == begin else 0.24)  # rollouts
    prompts = torch.randn(128, 24)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
    optimizer.step()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
    if step % EVERY == 0:
        torch.save({"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
    if step == LIMIT and "--resume" not in sys.argv:
        break
writer.close()
