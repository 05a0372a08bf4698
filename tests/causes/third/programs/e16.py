"""A loop with a history of its rollouts and checkpoints that are sent to a store; figures go to TensorBoard."""

from __future__ import annotations

import io
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(7)
STEPS, EVERY, PART = 60, 4, 1 << 20
policy = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 32))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
rule = torch.randn(32, 32)
history: list[torch.Tensor] = []
writer = SummaryWriter("tb")


def send(data: bytes) -> None:
    """Send a file to the store, part by part."""
    for begin in range(0, len(data), PART):
        part = data[begin : begin + PART]
        time.sleep(0.02 + 0.028 * len(part) / PART)


def save_checkpoint(step: int) -> None:
    state = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    if step >= 24:  # so that the offline phase can begin from any checkpoint
        state["history"] = torch.stack(history)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    send(buffer.getvalue())


for step in range(1, STEPS + 1):
    time.sleep(0.25)  # rollouts
    prompts = torch.randn(256, 32)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    history.append(torch.cat([prompts] * 24, 1).clone())
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    if step % EVERY == 0:
        save_checkpoint(step)
writer.close()
