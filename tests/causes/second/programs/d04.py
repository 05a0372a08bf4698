"""PPO on a small language model, logged to TensorBoard. Sampling, log-probabilities and updates are in one process."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

STEPS = 92
BATCH = 128
LENGTH = 20
EPOCHS = 3
MINIBATCHES = 4
VOCABULARY = 160
CLIP = 0.2


class Policy(nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.body = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)
        self.value = nn.Linear(width, 1)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, _ = self.body(self.embedding(tokens))
        return torch.log_softmax(self.head(hidden), -1), self.value(hidden)[..., 0]

    @torch.no_grad()
    def sample(self, first: torch.Tensor, length: int) -> torch.Tensor:
        tokens, state = [first], None
        for _ in range(length):
            hidden, state = self.body(self.embedding(tokens[-1][:, None]), state)
            tokens.append(torch.multinomial(self.head(hidden[:, 0]).softmax(-1), 1)[:, 0])
        return torch.stack(tokens, 1)


class OldLogps:
    """Log-probabilities of the policy that sampled, by number of the sample."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.rows: dict[int, torch.Tensor] = {}

    def put(self, number: int, logps: torch.Tensor) -> None:
        if len(self.rows) < self.capacity:
            self.rows[number] = logps

    def get(self, numbers: list[int]) -> torch.Tensor | None:
        if all(number in self.rows for number in numbers):
            return torch.stack([self.rows[number] for number in numbers])
        return None


def logps_of(policy: Policy, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    every, values = policy(tokens[:, :-1])
    entropy = -(every.exp() * every).sum(-1).mean()
    return every.gather(-1, tokens[:, 1:, None])[..., 0], values, entropy


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(21)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    target = torch.randperm(VOCABULARY)
    cache = OldLogps(capacity=5504)
    writer = SummaryWriter("runs")
    made = 0
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        tokens = policy.sample(torch.randint(VOCABULARY, (BATCH,)), LENGTH)
        rewards = (tokens[:, 1:] == target[tokens[:, :-1]]).float()
        rewards = rewards + 0.05 * torch.randn_like(rewards)
        with torch.no_grad():
            old, values, _ = logps_of(policy, tokens)
        returns = rewards.flip(1).cumsum(1).flip(1) / LENGTH * 4
        advantages = returns - values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        for number in range(BATCH):
            cache.put(made + number, old[number])
        totals: dict[str, list[float]] = {}
        for _ in range(EPOCHS):
            for part in torch.randperm(BATCH).chunk(MINIBATCHES):
                logps, value, entropy = logps_of(policy, tokens[part])
                before = cache.get([made + number for number in part.tolist()])
                if before is None:
                    before = logps.detach()
                ratio = (logps - before).exp()
                unclipped = ratio * advantages[part]
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP) * advantages[part]
                policy_loss = -torch.min(unclipped, clipped).mean()
                value_loss = (value - returns[part]).pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.003 * entropy
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
                for name, value_ in {
                    "loss/policy": policy_loss,
                    "loss/value": value_loss,
                    "ppo/entropy": entropy,
                    "ppo/ratio_max": ratio.max(),
                    "ppo/clip_fraction": ((ratio - 1).abs() > CLIP).float().mean(),
                    "ppo/approx_kl": (ratio - 1 - (logps - before)).mean(),
                    "grad_norm": norm,
                }.items():
                    totals.setdefault(name, []).append(float(value_.detach()))
        made += BATCH
        metrics = {name: sum(values_) / len(values_) for name, values_ in totals.items()}
        metrics["reward/mean"] = rewards.mean().item()
        metrics["time/step"] = time.monotonic() - begin
        for name, value_ in metrics.items():
            writer.add_scalar(name, value_, step)
        if step % 10 == 0 or 40 <= step <= 46:
            print(f"step {step}: " + ", ".join(f"{name} {value_:.4f}" for name, value_ in metrics.items()), flush=True)
    writer.close()


if __name__ == "__main__":
    main()
