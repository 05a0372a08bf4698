"""One epoch of supervised fine-tuning with two ranks that share the files of a corpus."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 12
LENGTH = 64
VOCABULARY = 700
#: Rows of the files, as the export wrote them.
ROWS = (120, 120, 120, 120, 120, 120, 120, 120, 120, 72, 120)


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    for number, count in enumerate(ROWS):
        starts, strides = rng.integers(0, VOCABULARY, (count, 1)), rng.integers(1, 5, (count, 1))
        np.save(folder / f"{number:02}.npy", (starts + strides * np.arange(LENGTH + 1)) % VOCABULARY)


def batches(folder: Path, rank: int, world: int):
    for path in sorted(folder.glob("*.npy"))[rank::world]:
        rows = torch.from_numpy(np.load(path))
        yield from rows.split(BATCH)


class Model(nn.Module):
    def __init__(self, width: int = 160):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(tokens), mask=self.mask, is_causal=True))


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = Path("corpus")
    if rank == 0:
        write(folder)
    dist.barrier()
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, rows in enumerate(batches(folder, rank, world), 1):
        begin = time.monotonic()
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        line = {
            "rank": rank,
            "step": step,
            "loss": round(loss.item(), 4),
            "grad_norm": round(norm.item(), 4),
            "seconds": round(time.monotonic() - begin, 3),
        }
        print(json.dumps(line), flush=True)
    torch.save(model.module.state_dict(), f"final-{os.environ['RANK']}.pt")
    print(f"rank {rank}: epoch done", flush=True)


if __name__ == "__main__":
    main()
