"""Off-policy loop with a sampler that gets new weights each other step; figures go to TensorBoard."""

from __future__ import annotations

import copy
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(1)
STEPS, EVERY = 72, 2
rule = torch.randn(20, 40)
policy = nn.Sequential(nn.Linear(20, 128), nn.Tanh(), nn.Linear(128, 40))
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
writer = SummaryWriter("tb")


class Sampler:
    """Answers prompts with its own copy of the weights, which has a version."""

    def __init__(self, policy: nn.Module) -> None:
        self.policy, self.version = copy.deepcopy(policy), "0"

    def load(self, weights: dict, version: str) -> None:
        if version > self.version:
            self.policy.load_state_dict(weights)
            self.version = version

    @torch.no_grad()
    def sample(self, prompts):
        time.sleep(0.25)
        chances = torch.distributions.Categorical(logits=self.policy(prompts))
        answers = chances.sample()
        return answers, chances.log_prob(answers)


sampler = Sampler(policy)
for step in range(1, STEPS + 1):
    prompts = torch.randn(256, 20)
    answers, old = sampler.sample(prompts)
    rewards = (answers == (prompts @ rule).argmax(1)).float() + 0.1 * (answers % 2 == 0)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    for _ in range(2):
        new = torch.distributions.Categorical(logits=policy(prompts)).log_prob(answers)
        ratio = (new - old).exp()
        loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", rewards.mean().item(), step)
    writer.add_scalar("policy/kl_to_sampler", (old - new).mean().item(), step)
    writer.add_scalar("policy/clip_fraction", ((ratio - 1).abs() > 0.2).float().mean().item(), step)
    if step % EVERY == 0:
        sampler.load(policy.state_dict(), str(step // EVERY))
writer.close()
