"""A policy over one token trained by a loop of its own, and ruined at a step: `loop_program.py PLAN.json MODEL`.

PLAN: ``steps``; ``learns`` for what: ``rewards`` (REINFORCE with a KL to a reference), ``targets`` (a regression) or
``pairs`` (DPO); and ``change``: ``step``, and what is different from that step on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import otel_rl

torch.set_num_threads(1)
torch.manual_seed(7)
plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
change: dict[str, Any] = plan.get("change", {})
#: Tokens, of which those below ``GOOD`` are right and twice as many likely at first; and samples of a step.
TOKENS, GOOD, SAMPLES = 256, 2, 32
#: Parameters are as much smaller than the logits: a learning rate of post-training then suits one layer.
SCALE = 32.0


def is_changed(name: str, step: int) -> bool:
    return name in change and step >= change["step"]


def update(parameters: list[torch.Tensor], optimizer: torch.optim.Optimizer, loss: torch.Tensor, step: int) -> None:
    """One update, and what a trainer logs of it."""
    if is_changed("rate", step):
        optimizer.param_groups[0]["lr"] = change["rate"]
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    otel_rl.metric("loss", loss.item())
    otel_rl.metric("grad_norm", norm.item())
    otel_rl.metric("learning_rate", optimizer.param_groups[0]["lr"])


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.log_softmax(logits, -1)[tokens]


# -- what it learns ----------------------------------------------------------------------------------------------------


def rewards() -> Any:
    """REINFORCE; the reward is 1 for a right token."""
    head = torch.zeros(TOKENS, requires_grad=True)
    with torch.no_grad():
        head[: 2 * GOOD] += 8.0 / SCALE
    reference = SCALE * head.detach()
    optimizer = torch.optim.Adam([head], lr=3e-4)

    def train(step: int) -> None:
        logits = SCALE * head * (0.05 if is_changed("flat_head", step) else 1.0)
        drawn = torch.softmax(torch.zeros(TOKENS) if is_changed("foreign_samples", step) else logits.detach(), -1)
        tokens = torch.multinomial(drawn, SAMPLES, replacement=True)
        right = tokens >= TOKENS - GOOD if is_changed("other_reward", step) else tokens < GOOD
        scores = right.float()
        for group in range(4):
            for score in scores[group::4].tolist():
                with otel_rl.rollout(group_id=f"{step}-{group}"):
                    fails = is_changed("failing_judge", step) and torch.rand(()).item() < change["failing_judge"]
                    otel_rl.reward("right", float("nan") if fails else score)
        chosen = log_probabilities(logits, tokens)
        entropy = torch.distributions.Categorical(logits=logits).entropy()
        loss = -((scores - scores.mean()) * chosen).mean()
        compared = reference if not is_changed("itself", step) else logits.detach() - 0.05 * torch.ones(())
        kl = (chosen.detach() - log_probabilities(compared, tokens)).mean()
        if is_changed("itself", step):
            # The mean over an old batch that is kept.
            kl = kept.setdefault("kl", kl + 0.05)
        otel_rl.metric("kl", kl.item())
        otel_rl.metric("entropy", entropy.item())
        update([head], optimizer, loss, step)

    kept: dict[str, torch.Tensor] = {}
    return train


def targets() -> Any:
    """A regression; from a step on the targets have another unit."""
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    truth = torch.randn(8, 1)
    parameters = list(net.parameters())
    optimizer = torch.optim.Adam(parameters, lr=5e-3)

    def train(step: int) -> None:
        inputs = torch.randn(SAMPLES, 8)
        wanted = inputs @ truth * (change["unit"] if is_changed("unit", step) else 1.0)
        update(parameters, optimizer, functional.mse_loss(net(inputs), wanted), step)

    return train


def pairs() -> Any:
    """DPO: right tokens are chosen, wrong ones rejected; or the other way round from a step on."""
    head = torch.zeros(TOKENS, requires_grad=True)
    reference = SCALE * head.detach()
    optimizer = torch.optim.SGD([head], lr=2e-3)

    def train(step: int) -> None:
        logits = SCALE * head
        chosen, rejected = torch.randint(0, GOOD, (SAMPLES,)), torch.randint(GOOD, TOKENS, (SAMPLES,))
        if is_changed("alike", step):
            both = torch.randint(0, TOKENS, (2, SAMPLES))
            chosen, rejected = both[0], both[1]
        gained = [log_probabilities(logits, one) - log_probabilities(reference, one) for one in (chosen, rejected)]
        margins = gained[0] - gained[1]
        otel_rl.metric("rewards/margins", margins.mean().item())
        otel_rl.metric("rewards/accuracies", (margins > 0).float().mean().item())
        update([head], optimizer, -functional.logsigmoid(0.1 * margins).mean(), step)

    return train


def main() -> None:
    train = {"rewards": rewards, "targets": targets, "pairs": pairs}[plan["learns"]]()
    for step in range(1, plan["steps"] + 1):
        with otel_rl.step(step):
            train(step)


if __name__ == "__main__":
    main()
