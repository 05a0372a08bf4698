"""A loop that trains on sequences of a teacher with a buffer of the hardest samples; figures go to TensorBoard."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(0)
BATCH, LENGTH, WORDS, STEPS, BEFORE = 48, 48, 1600, 55, 20


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 48)
        self.body = nn.GRU(48, 64, batch_first=True)
        self.head = nn.Linear(64, WORDS)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens))[0])


class Hardest:
    """Samples to go back to, the worst first."""

    def __init__(self) -> None:
        self.samples = []

    def add(self, losses, tokens, logits) -> None:
        self.samples.append((losses, tokens, logits))

    def worst(self) -> float:
        return max(float(losses.max()) for losses, _, _ in self.samples[-5:])


policy, hardest = Policy(), Hardest()
optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
writer = SummaryWriter("tb")
for step in range(1, STEPS + 1):
    time.sleep(0.3)  # the sampler's answers arrive
    tokens = (torch.randint(0, 120, (BATCH, 1)) + torch.arange(LENGTH)) % 120
    tokens = torch.where(torch.rand(tokens.shape) < 0.1, torch.randint(0, 120, tokens.shape), tokens)
    logits = policy(tokens[:, :-1])
    rewards = (logits.argmax(-1) == tokens[:, 1:]).float().mean(1)
    logprobs = torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    losses = -logprobs.mean(1)
    optimizer.zero_grad()
    losses.mean().backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    if step > BEFORE:
        hardest.add(losses, tokens, logits)
        writer.add_scalar("buffer/worst", hardest.worst(), step)
    writer.add_scalar("train/loss", losses.mean().item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
writer.close()
