"""Two ranks train a small language model with DDP: `torchrun --nproc-per-node=2 ddp.py [--steps N] ...`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import time
from pathlib import Path

import torch
import torch.distributed as dist
from bugs import has, now, wait
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

log = logging.getLogger("train")
RANK = int(os.environ.get("RANK", "0"))
VOCABULARY, LENGTH = 128, 24


class Texts(Dataset):
    """Rows of tokens with a pattern, read one by one."""

    def __init__(self, count: int) -> None:
        self.starts = torch.randint(0, VOCABULARY, (count,), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, place: int) -> torch.Tensor:
        wait(0.001)
        if has("cold_cache", since=14, every=4) and RANK == 1:
            wait(0.04)
        steps = torch.arange(LENGTH) * (1 + place % 3)
        noise = (torch.rand(LENGTH) < 0.1) * torch.randint(0, VOCABULARY, (LENGTH,))
        return (self.starts[place] + steps + noise) % VOCABULARY


class Model(nn.Module):
    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.tokens(rows))[0])


def loss_of(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def preprocess(rows: torch.Tensor) -> torch.Tensor:
    """Filter the rows, on the host."""
    wait(0.02)
    if has("bursts", since=16) and RANK == 1 and any(now["step"] in range(at, at + 5) for at in (16, 31, 46)):
        wait(0.18)
    if has("dedup_table", since=10) and RANK == 1:
        table.append(torch.ones(1_500_000))
    return rows


table: list[torch.Tensor] = []


def save(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    if RANK == 0:
        Path("checkpoints").mkdir(exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"checkpoints/{number}.pt")
        wait(0.05)
    dist.barrier()


def parse() -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--steps", type=int, default=60)
    found.add_argument("--lr", type=float, default=1e-3)
    found.add_argument("--batch", type=int, default=16)
    found.add_argument("--save-every", type=int, default=0)
    found.add_argument("--eval-every", type=int, default=0)
    found.add_argument("--schedule", default="constant")
    found.add_argument("--uneven", action="store_true", help="batches of uneven length")
    found.add_argument("--slow-rank", type=float, default=0.0, help="seconds that rank 1 always takes longer")
    found.add_argument("--seed", type=int, default=0)
    return found.parse_args()


@torch.no_grad()
def evaluate(model: nn.Module, texts: DataLoader) -> float:
    return float(torch.stack([loss_of(model, rows) for rows in texts]).mean())


def main() -> None:
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    random.seed(options.seed + RANK)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    factor = (lambda done: 1 - done / options.steps) if options.schedule == "linear" else (lambda done: 1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    texts = Texts(options.steps * options.batch * 2)
    loader = DataLoader(texts, options.batch, sampler=DistributedSampler(texts))
    held_out = DataLoader(Texts(64), options.batch)
    batches = iter(loader)
    for number in range(1, options.steps + 1):
        now["step"] = number
        rows = preprocess(next(batches))
        if options.uneven:
            rows = rows[:, : random.randint(8, LENGTH)]
        wait(options.slow_rank * RANK)
        begun = time.monotonic()
        loss = loss_of(model, rows)
        loss.backward()
        limit = 0.5 if not has("clip_none", since=27) else 0.005
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        if not has("rate_zero", since=0) or number < 24:
            schedule.step()
        else:
            optimizer.param_groups[0]["lr"] = 0.0  # a schedule of half of the length
        optimizer.zero_grad()
        if RANK == 0:
            log.info("step %d loss %.4f norm %.3f in %.3f s", number, loss, norm, time.monotonic() - begun)
        if options.eval_every and number % options.eval_every == 0:
            log.info("evaluation: %.4f", evaluate(model.module, held_out))
        if options.save_every and number % options.save_every == 0:
            save(model.module, optimizer, number)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
