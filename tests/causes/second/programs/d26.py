"""Actor-critic on contextual bandits with large rewards, that are scaled; goes on from its checkpoint."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

STEPS = 92
BATCH = 512
FEATURES = 64
ACTIONS = 12
CHECKPOINT = Path("checkpoints/last.pt")


class ActorCritic(nn.Module):
    def __init__(self, width: int = 768):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor = nn.Linear(width, ACTIONS)
        self.critic = nn.Linear(width, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        hidden = self.body(states)
        return torch.distributions.Categorical(logits=self.actor(hidden)), self.critic(hidden)[..., 0]


class RewardScaler:
    """Divides rewards by a running deviation, after taking a running mean from them."""

    def __init__(self, momentum: float = 0.98):
        self.momentum = momentum
        self.mean, self.deviation, self.count = 0.0, 1.0, 0

    def __call__(self, rewards: torch.Tensor) -> torch.Tensor:
        keep = self.momentum if self.count > 8 else self.count / (self.count + 1)
        self.mean = keep * self.mean + (1 - keep) * rewards.mean().item()
        self.deviation = keep * self.deviation + (1 - keep) * rewards.std().item()
        self.count += 1
        return (rewards - self.mean) / (self.deviation + 1e-6)


class Job:
    def __init__(self):
        torch.manual_seed(19)
        self.model = ActorCritic()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.2, STEPS)
        self.scaler = RewardScaler()
        self.generator = torch.Generator().manual_seed(23)
        self.truth = torch.randn(FEATURES, ACTIONS, generator=torch.Generator().manual_seed(29))
        self.step = 0

    def save(self) -> None:
        CHECKPOINT.parent.mkdir(exist_ok=True)
        state = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "schedule")}
        torch.save(
            {**state, "step": self.step, "generator": self.generator.get_state(), "random": torch.get_rng_state()},
            CHECKPOINT,
        )

    def load(self) -> None:
        state = torch.load(CHECKPOINT, weights_only=True)
        for name in ("model", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(state[name])
        self.step = state["step"]
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["random"])
        self.scaler.count = self.step
        print(f"resumed from step {self.step}", flush=True)

    def train(self, until: int) -> None:
        writer = SummaryWriter("runs")
        while self.step < until:
            self.step += 1
            begin = time.monotonic()
            states = torch.randn(BATCH, FEATURES, generator=self.generator)
            with torch.no_grad():
                distribution, _ = self.model(states)
                actions = distribution.sample()
                old = distribution.log_prob(actions)
            raw = 40 + 6 * (states @ self.truth).gather(1, actions[:, None])[:, 0] / FEATURES**0.5 * 3
            raw = raw + 8 * torch.randn(BATCH, generator=self.generator)
            rewards = self.scaler(raw)
            for part in torch.randperm(BATCH).repeat(2).chunk(8):
                distribution, values = self.model(states[part])
                advantages = rewards[part] - values.detach()
                ratio = (distribution.log_prob(actions[part]) - old[part]).exp()
                policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
                value_loss = (values - rewards[part]).pow(2).mean()
                entropy = distribution.entropy().mean()
                self.optimizer.zero_grad()
                (policy_loss + 0.5 * value_loss - 0.01 * entropy).backward()
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
            self.schedule.step()
            metrics = {
                "loss/policy": policy_loss.item(),
                "loss/value": value_loss.item(),
                "policy/entropy": entropy.item(),
                "grad_norm": norm.item(),
                "reward/raw_mean": raw.mean().item(),
                "reward/scaled_mean": rewards.mean().item(),
                "reward/scaled_std": rewards.std().item(),
                "reward/scaler_deviation": self.scaler.deviation,
                "lr": self.schedule.get_last_lr()[0],
                "time/step": time.monotonic() - begin,
            }
            for name, one in metrics.items():
                writer.add_scalar(name, one, self.step)
            if self.step % 8 == 0 or 44 <= self.step <= 50:
                print(
                    f"step {self.step}: " + " ".join(f"{name}={one:.4g}" for name, one in metrics.items()), flush=True
                )
            if self.step % 15 == 0 or self.step == until:
                self.save()
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=int, default=STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    job = Job()
    if CHECKPOINT.exists():
        job.load()
    job.train(options.until)


if __name__ == "__main__":
    main()
