"""Supervised fine-tuning with two ranks: lengths vary, evaluation every 15 steps, checkpoint every 20."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 84
BATCH = 12
VOCABULARY = 600


class Model(nn.Module):
    def __init__(self, width: int = 256):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.body = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(tokens))[0])


def batch(generator: torch.Generator) -> torch.Tensor:
    """Rows of one length; that of the batch follows a long-tailed distribution, as texts do."""
    length = int(min(160, 24 * math.exp(0.7 * torch.randn((), generator=generator).item()) + 16))
    starts = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
    strides = torch.randint(1, 5, (BATCH, 1), generator=generator)
    return (starts + strides * torch.arange(length + 1)) % VOCABULARY


def loss_of(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: nn.Module, rows: list[torch.Tensor]) -> float:
    model.eval()
    total = sum(loss_of(model, one) for one in rows)
    model.train()
    dist.all_reduce(total)
    return total.item() / len(rows) / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 10) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
    )
    generator = torch.Generator().manual_seed(100 + rank)
    held_out = [batch(torch.Generator().manual_seed(1000 + 2 * number + rank)) for number in range(8)]
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        rows = batch(generator)
        loss = loss_of(model, rows)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        line = {
            "step": step,
            "loss": round(mean.item() / 2, 4),
            "grad_norm": round(norm.item(), 4),
            "lr": schedule.get_last_lr()[0],
            "seconds": round(time.monotonic() - begin, 3),
        }
        if step % 15 == 0:
            line["eval_loss"] = round(evaluate(model, held_out), 4)
        if rank == 0:
            print(json.dumps(line), flush=True)
        if step % 20 == 0:
            if rank == 0:
                Path("checkpoints").mkdir(exist_ok=True)
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, f"checkpoints/{step}.pt")
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
