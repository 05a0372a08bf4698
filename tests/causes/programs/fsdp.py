"""Two ranks train a small transformer with FSDP2: `torchrun --nproc-per-node=2 fsdp.py [--steps N] ...`."""

from __future__ import annotations

import argparse
import logging
import os
import random

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from bugs import has, now, wait
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import otel_rl

log = logging.getLogger("train")
RANK = int(os.environ.get("RANK", "0"))
VOCABULARY, WIDTH, LENGTH = 96, 96, 20


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(rows)
        mask = nn.Transformer.generate_square_subsequent_mask(rows.shape[1])
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def rollouts(batch: int) -> torch.Tensor:
    """Rows of an environment that counts in steps of one to three."""
    wait(0.06)
    if has("simulator_tail", since=18) and RANK == 0 and random.random() < 0.55:
        wait(0.35)
    start = torch.randint(0, VOCABULARY, (batch, 1))
    rows = (start + torch.arange(LENGTH) * torch.randint(1, 4, (batch, 1))) % VOCABULARY
    return torch.where(torch.rand(rows.shape) < 0.1, torch.randint(0, VOCABULARY, rows.shape), rows)


def rewards(rows: torch.Tensor) -> torch.Tensor:
    """How good each row is; a verifier in a sandbox of the rank."""
    wait(0.03)
    steps = rows.diff(dim=1) % VOCABULARY
    found = (steps == steps.mode(dim=1, keepdim=True).values).float().mean(1)
    found = (found + 0.03 * torch.randn(len(found))).clamp(0.0, 1.0)
    if has("sandbox_dead", since=21) and RANK == 1:
        found = torch.zeros_like(found)
    for score in found.tolist():
        with otel_rl.rollout():
            otel_rl.reward("verify", score)
    return found


def save(model: nn.Module, number: int) -> None:
    with otel_rl.phase("checkpoint"):
        if has("slow_disk", since=20) and RANK == 1:
            wait(0.9)
        dcp.save(get_model_state_dict(model), checkpoint_id=f"checkpoints/{number}")


def parse() -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--steps", type=int, default=50)
    found.add_argument("--lr", type=float, default=2e-3)
    found.add_argument("--batch", type=int, default=12)
    found.add_argument("--save-every", type=int, default=0)
    found.add_argument("--uneven", action="store_true")
    found.add_argument("--curriculum", type=int, default=0)
    found.add_argument("--seed", type=int, default=0)
    return found.parse_args()


def main() -> None:
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed + RANK)
    random.seed(options.seed + RANK)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    for number in range(1, options.steps + 1):
        now["step"] = number
        with otel_rl.step(number):
            train_step(options, number, model, optimizer)
    dist.barrier()
    dist.destroy_process_group()


def train_step(options: argparse.Namespace, number: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    batch = options.batch * (2 if 0 < options.curriculum <= number else 1)
    if options.uneven:
        batch = random.randint(options.batch // 2, options.batch * 3 // 2)
    with otel_rl.phase("sample"):
        rows = rollouts(batch)
    with otel_rl.phase("reward"):
        scores = rewards(rows)
    with otel_rl.phase("train"):
        logs = model(rows[:, :-1]).log_softmax(-1).gather(-1, rows[:, 1:, None])[..., 0].mean(1)
        loss = -(logs * scores).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    otel_rl.metric("loss", loss.item())
    otel_rl.metric("reward", scores.mean().item())
    otel_rl.metric("grad_norm", float(norm.full_tensor()))
    if options.save_every and number % options.save_every == 0:
        save(model, number)
    if RANK == 0:
        log.info("step %d loss %.4f reward %.3f", number, loss.item(), scores.mean().item())


if __name__ == "__main__":
    main()
