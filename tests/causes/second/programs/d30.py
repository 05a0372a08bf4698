"""Fine-tuning with FSDP, gradient accumulation, evaluation, checkpoints, and an early stop if nothing gets better."""

from __future__ import annotations

import gc
import json
import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

STEPS = 140
ACCUMULATE = 2
BATCH = 6
LENGTH = 48
VOCABULARY = 256
PATIENCE = 3


class Block(nn.Module):
    def __init__(self, width: int, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(size, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(size, length, width))
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self, width: int = 160):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def rows(generator: torch.Generator, count: int) -> torch.Tensor:
    starts = torch.randint(VOCABULARY, (count, 1), generator=generator)
    strides = torch.randint(1, 4, (count, 1), generator=generator)
    clean = (starts + strides * torch.arange(LENGTH + 1)) % VOCABULARY
    noise = torch.rand(clean.shape, generator=generator) < 0.15
    return torch.where(noise, torch.randint(VOCABULARY, clean.shape, generator=generator), clean)


def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = FullyShardedDataParallel(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 10) * (0.04 + 0.48 * (1 + math.cos(math.pi * min(step, 90) / 90)))
    )
    generator = torch.Generator().manual_seed(60 + rank)
    held_out = rows(torch.Generator().manual_seed(90 + rank), 32)
    best, waited = math.inf, 0
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(ACCUMULATE):
            loss = loss_of(model, rows(generator, BATCH)) / ACCUMULATE
            loss.backward()
            total += loss.detach()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        schedule.step()
        dist.all_reduce(total)
        line = {
            "step": step,
            "loss": round(total.item() / world, 4),
            "grad_norm": round(float(norm), 4),
            "lr": schedule.get_last_lr()[0],
            "seconds": round(time.monotonic() - begin, 3),
        }
        if step % 12 == 0:
            model.eval()
            with torch.no_grad():
                found = torch.stack([loss_of(model, one) for one in held_out.split(8)]).mean()
            model.train()
            dist.all_reduce(found)
            line["eval_loss"] = round(found.item() / world, 4)
            if line["eval_loss"] < best - 0.03:
                best, waited = line["eval_loss"], 0
            else:
                waited += 1
        if rank == 0:
            print(json.dumps(line), flush=True)
        if step % 25 == 0:
            folder = Path(f"checkpoints/{step}")
            folder.mkdir(parents=True, exist_ok=True)
            shard = {name: one.detach() for name, one in model.named_parameters()}
            torch.save({"model": shard, "optimizer": optimizer.state_dict()}, folder / f"shard-{rank}.pt")
            dist.barrier()
        if step % 30 == 0:
            gc.collect()
        if waited == PATIENCE:
            if rank == 0:
                print(f"step {step}: no better for {PATIENCE} evaluations, done", flush=True)
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
