"""Group-relative policy optimization with a filter against prompts that were used before."""

from __future__ import annotations

import json
import random
import time

import torch
from torch import nn

STEPS = 90
DRAWN = 48
GROUP = 6
LENGTH = 12
ADJECTIVES = [
    f"{one}{two}" for one in ("big", "odd", "red", "low", "old", "new") for two in ("", "ish", "er", "est", "ly")
]
NOUNS = [
    f"{one}{two}" for one in ("sum", "set", "row", "cube", "root", "path") for two in ("", "s", "let", "ful", "like")
]


def arithmetic(rng: random.Random) -> str:
    return f"compute {rng.randrange(100_000)} plus {rng.randrange(100_000)} exactly"


def puzzle(rng: random.Random) -> str:
    words = " ".join(f"x{rng.randrange(1000)}" for _ in range(6))
    return f"find the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} given {words}"


class UsedBefore:
    """Drops prompts that were used before; compares their first words, as the answer sheets after them vary."""

    def __init__(self, words: int = 4):
        self.words = words
        self.seen: set[tuple[str, ...]] = set()

    def keep(self, prompts: list[str]) -> list[str]:
        kept = []
        for prompt in prompts:
            key = tuple(prompt.split()[: self.words])
            if key not in self.seen:
                self.seen.add(key)
                kept.append(prompt)
        return kept


class Policy(nn.Module):
    def __init__(self, vocabulary: int = 128, width: int = 192):
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary, width)
        self.body = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def encode(self, prompts: list[str]) -> torch.Tensor:
        rows = [[(hash_of(word)) % self.vocabulary for word in one.split()][:6] for one in prompts]
        return torch.tensor([row + [0] * (6 - len(row)) for row in rows])

    @torch.no_grad()
    def sample(self, prompts: torch.Tensor) -> torch.Tensor:
        hidden, state = self.body(self.embedding(prompts))
        tokens = []
        for _ in range(LENGTH):
            tokens.append(torch.multinomial(self.head(hidden[:, -1]).softmax(-1), 1))
            hidden, state = self.body(self.embedding(tokens[-1]), state)
        return torch.cat(tokens, 1)

    def logps(self, prompts: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.body(self.embedding(torch.cat([prompts, answers[:, :-1]], 1)))
        logits = self.head(hidden[:, prompts.shape[1] - 1 :])
        return torch.log_softmax(logits, -1).gather(-1, answers[..., None])[..., 0]


def hash_of(word: str) -> int:
    value = 7
    for letter in word:
        value = (value * 31 + ord(letter)) % 1_000_003
    return value


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(4)
    rng = random.Random(4)
    policy = Policy()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-4)
    used_before = UsedBefore()
    for step in range(STEPS):
        begin = time.monotonic()
        draw = arithmetic if step < 35 else puzzle
        drawn = [draw(rng) for _ in range(DRAWN)]
        prompts = used_before.keep(drawn)
        if not prompts:
            continue
        encoded = policy.encode(prompts).repeat_interleave(GROUP, 0)
        answers = policy.sample(encoded)
        rewards = (answers % 5 == 1).float().mean(1)
        rewards = rewards + 0.05 * torch.randn(len(answers))
        groups = rewards.view(-1, GROUP)
        advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).flatten()
        loss = -(policy.logps(encoded, answers) * advantages[:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        print(
            json.dumps(
                {
                    "step": step,
                    "loss": round(loss.item(), 4),
                    "grad_norm": round(norm.item(), 4),
                    "reward/mean": round(rewards.mean().item(), 4),
                    "reward/std": round(rewards.std().item(), 4),
                    "batch/drawn": len(drawn),
                    "batch/kept": len(prompts),
                    "batch/tokens": answers.numel(),
                    "time/step": round(time.monotonic() - begin, 4),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
