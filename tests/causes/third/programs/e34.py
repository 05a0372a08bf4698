"""A loop whose answers get longer while it learns, as is wanted of a model that reasons; figures go to TensorBoard."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(6)
STEPS, LONGEST = 55, 80
# Logits of "think one token more" by how hard the prompt is; a harder prompt needs more tokens.
policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
with torch.no_grad():
    policy[2].bias.fill_(1.9)
optimizer = torch.optim.AdamW(policy.parameters(), lr=7e-3)
writer = SummaryWriter("tb")


@torch.no_grad()
def generate(hardness):
    """Tokens of each answer; takes time for each token of the longest ones."""
    lengths = torch.ones(len(hardness))
    thinks = torch.ones(len(hardness), dtype=torch.bool)
    for position in range(1, LONGEST):
        chance = torch.sigmoid(policy(torch.stack([hardness, torch.full_like(hardness, position / LONGEST)], 1)))
        thinks &= torch.rand(len(hardness)) < chance.squeeze(1)
        lengths += thinks
    time.sleep(0.08 + 0.011 * lengths.mean().item())
    return lengths


for step in range(1, STEPS + 1):
    hardness = torch.rand(96)
    lengths = generate(hardness)
    chance_right = torch.sigmoid((lengths - 8 - 22 * hardness) / 4)
    rewards = (torch.rand(96) < chance_right).float() - 0.008 * lengths
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    positions = torch.arange(1, LONGEST)[None, :].expand(96, -1)
    logits = policy(torch.stack([hardness[:, None].expand(-1, LONGEST - 1), positions / LONGEST], -1)).squeeze(-1)
    goes_on = (positions < lengths[:, None]).float()
    counts = (positions <= lengths[:, None]).float()
    logprobs = -nn.functional.binary_cross_entropy_with_logits(logits, goes_on, reduction="none")
    loss = -((logprobs * counts).sum(1) * advantages).mean() / 20
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
    writer.add_scalar("completions/mean_length", lengths.mean().item(), step)
writer.close()
