"""REINFORCE on a small language model; rewards compare the length of an answer with that of a reference."""

from __future__ import annotations

import json
import math
import time

import torch
from torch import nn

STEPS = 90
BATCH = 96
LENGTH = 24
VOCABULARY = 64
STOP = 0


class Policy(nn.Module):
    def __init__(self, width: int = 192):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.body = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    @torch.no_grad()
    def sample(self, prompts: torch.Tensor) -> torch.Tensor:
        hidden, state = self.body(self.embedding(prompts))
        tokens = []
        for _ in range(LENGTH):
            logits = self.head(hidden[:, -1])
            if not tokens:
                logits[:, STOP] = -torch.inf
            tokens.append(torch.multinomial(logits.softmax(-1), 1))
            hidden, state = self.body(self.embedding(tokens[-1]), state)
        return torch.cat(tokens, 1)

    def logps(self, prompts: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.body(self.embedding(torch.cat([prompts, answers[:, :-1]], 1)))
        logits = self.head(hidden[:, prompts.shape[1] - 1 :])
        return torch.log_softmax(logits, -1).gather(-1, answers[..., None])[..., 0]


class Normalizer:
    """Running mean and deviation of the rewards."""

    def __init__(self, momentum: float = 0.95):
        self.momentum = momentum
        self.mean, self.square = torch.zeros(()), torch.ones(())

    def __call__(self, rewards: torch.Tensor) -> torch.Tensor:
        self.mean = self.momentum * self.mean + (1 - self.momentum) * rewards.mean()
        self.square = self.momentum * self.square + (1 - self.momentum) * rewards.pow(2).mean()
        return (rewards - self.mean) / (self.square - self.mean.pow(2)).clamp(min=1e-4).sqrt()


def references() -> list[str]:
    """Reference answers, one line each, as they came out of the export."""
    generator = torch.Generator().manual_seed(40)
    lines = []
    for number in range(STEPS * BATCH):
        count = int(torch.randint(4, 20, (), generator=generator))
        lines.append("" if number == 48 * BATCH + 17 else "word " * count)
    return lines


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(13)
    policy = Policy()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    normalize = Normalizer()
    lines = references()
    skipped = 0
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        wanted = torch.tensor([float(len(one.split())) for one in lines[(step - 1) * BATCH : step * BATCH]])
        prompts = torch.cat([wanted.long()[:, None] % VOCABULARY, torch.randint(1, VOCABULARY, (BATCH, 3))], 1)
        answers = policy.sample(prompts)
        ended = (answers == STOP).cumsum(1) > 0
        lengths = (~ended).sum(1).float()
        mask = torch.cat([torch.ones(BATCH, 1), (~ended).float()[:, :-1]], 1)
        rewards = -(lengths / wanted).log().abs() + 0.1 * torch.randn(BATCH)
        advantages = normalize(rewards)
        loss = -(policy.logps(prompts, answers) * mask * advantages[:, None]).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        if math.isfinite(norm):
            optimizer.step()
            skipped = 0
        else:
            skipped += 1
        print(
            json.dumps(
                {
                    "step": step,
                    "loss": loss.item(),
                    "grad_norm": norm.item(),
                    "reward/mean": rewards.mean().item(),
                    "reward/running_mean": normalize.mean.item(),
                    "answer/length": lengths.mean().item(),
                    "updates/skipped": skipped,
                    "seconds": round(time.monotonic() - begin, 4),
                }
            ),
            flush=True,
        )
        if skipped == 14:
            raise RuntimeError("no update in 14 steps: gradients overflow, try a smaller learning rate")


if __name__ == "__main__":
    main()
