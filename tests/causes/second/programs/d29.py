"""Supervised fine-tuning with two ranks and gradient accumulation; the second phase has smaller micro-batches."""

from __future__ import annotations

import contextlib
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 84
BATCH = 8
LENGTH = 64
VOCABULARY = 600
#: Last step of the phase: micro-batches of a step.
PHASES = {40: 2, STEPS: 5}


class Model(nn.Module):
    def __init__(self, width: int = 160):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(tokens), mask=self.mask, is_causal=True))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4)
    generator = torch.Generator().manual_seed(50 + rank)
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        parts = next(count for last, count in PHASES.items() if step <= last)
        starts = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        strides = torch.randint(1, 7, (BATCH, 1), generator=generator)
        tokens = (starts + strides * torch.arange(LENGTH + 1)) % VOCABULARY
        optimizer.zero_grad()
        total = 0.0
        for number, rows in enumerate(tokens.chunk(parts), 1):
            with contextlib.nullcontext() if number % parts == 0 else model.no_sync():
                logits = model(rows[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()) * len(rows) / BATCH
                loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        weights = torch.stack([one.detach().norm() for one in model.parameters()]).norm()
        line = {
            "rank": rank,
            "step": step,
            "loss": round(total, 4),
            "grad_norm": round(norm.item(), 5),
            "weight_norm": round(weights.item(), 5),
            "seconds": round(time.monotonic() - begin, 3),
        }
        print(json.dumps(line), flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "final.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
