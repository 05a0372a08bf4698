"""Supervised fine-tuning with FSDP; samples of a batch are packed into one row.

The first pass over the data is shuffled; after it, batches are made of samples of similar length.
"""

from __future__ import annotations

import json
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

SAMPLES = 35 * 8
PER_RANK = 4
STEPS = 80
VOCABULARY = 1000


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm_1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self, width: int = 192, layers: int = 4):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
        size = tokens.shape[1]
        causal = torch.ones(size, size, dtype=torch.bool).tril()
        mask = ~(causal & (document[0][:, None] == document[0][None, :]))
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


class Corpus:
    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(SAMPLES):
            length = rng.randrange(20, 60) if rng.random() < 0.5 else rng.randrange(150, 260)
            stride, token = rng.choice([1, 2, 3]), rng.randrange(VOCABULARY)
            self.rows.append([(token + stride * place) % VOCABULARY for place in range(length)])

    def batches(self, epoch: int, rank: int, world: int):
        order = list(range(len(self.rows)))
        random.Random(epoch).shuffle(order)
        size = PER_RANK * world
        for begin in range(0, len(order) - size + 1, size):
            indices = order[begin : begin + size]
            if epoch > 0:
                indices.sort(key=lambda one: len(self.rows[one]))
            yield [self.rows[one] for one in indices[rank * PER_RANK : (rank + 1) * PER_RANK]]


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    corpus = Corpus(3)
    step = epoch = 0
    while step < STEPS:
        for rows in corpus.batches(epoch, rank, world):
            step += 1
            begin = time.monotonic()
            tokens = torch.tensor([token for row in rows for token in row])[None]
            document = torch.tensor([number for number, row in enumerate(rows) for _ in row])[None]
            logits = model(tokens, document)
            same = document[0, 1:] == document[0, :-1]
            loss = nn.functional.cross_entropy(logits[0, :-1][same], tokens[0, 1:][same])
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            norm = getattr(norm, "full_tensor", lambda norm=norm: norm)()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                seconds = time.monotonic() - begin
                print(
                    json.dumps(
                        {
                            "step": step,
                            "epoch": epoch,
                            "loss": round(mean.item() / world, 4),
                            "grad_norm": round(float(norm), 4),
                            "seconds": round(seconds, 3),
                        }
                    ),
                    flush=True,
                )
            if step == STEPS:
                break
        epoch += 1
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
