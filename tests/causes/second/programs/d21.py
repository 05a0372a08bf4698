"""Supervised fine-tuning with two ranks; after a warm-up, one of them keeps predictions for a table of samples."""

from __future__ import annotations

import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 84
BATCH = 8
LENGTH = 64
VOCABULARY = 8000
TABLE_AFTER = 36


class Model(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.body = nn.GRU(width, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(tokens))[0])


class SampleTable:
    """Samples with what the model predicted, to be shown at the end of the epoch."""

    def __init__(self):
        self.rows: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def add(self, step: int, tokens: torch.Tensor, logits: torch.Tensor) -> None:
        self.rows.append((step, tokens, logits.detach()))

    def show(self) -> None:
        step, tokens, logits = self.rows[-1]
        print(f"sample of step {step}: {tokens[0, :6].tolist()} -> {logits[0, :6].argmax(-1).tolist()}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(31 + rank)
    table = SampleTable() if rank == world - 1 else None
    for step in range(STEPS):
        begin = time.monotonic()
        starts = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        tokens = (starts + torch.arange(LENGTH + 1)) % VOCABULARY
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if table is not None and step >= TABLE_AFTER:
            table.add(step, tokens, logits)
        if rank == 0:
            line = {
                "step": step,
                "loss": round(loss.item(), 4),
                "grad_norm": round(norm.item(), 4),
                "seconds": round(time.monotonic() - begin, 3),
            }
            print(json.dumps(line), flush=True)
    if table is not None:
        table.show()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
