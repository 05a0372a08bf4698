"""Supervised fine-tuning on a stream that two loader workers read, each its own files, in order."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

STEPS = 80
BATCH = 8
LENGTH = 96
VOCABULARY = 800
BATCHES_PER_FILE = 7


def write_corpus(folder: Path) -> list[str]:
    """Write the local files; return the manifest of all, a few of which are only in the object store."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(8)
    manifest = []
    for number in range(14):
        starts = rng.integers(0, VOCABULARY, (BATCHES_PER_FILE * BATCH, 1))
        strides = rng.integers(1, 4, (BATCHES_PER_FILE * BATCH, 1))
        rows = (starts + strides * np.arange(LENGTH + 1)) % VOCABULARY
        np.save(folder / f"part-{number:03}.npy", rows)
        where = "store" if number % 2 == 1 and number >= 7 else "local"
        manifest.append(f"{where}:{folder}/part-{number:03}.npy")
    return manifest


def read_local(path: str):
    yield from np.load(path, mmap_mode="r")


def read_store(path: str):
    """Rows of a file in the object store: one ranged request each."""
    rows = np.load(path, mmap_mode="r")
    for row in rows:
        time.sleep(0.11)
        yield row


class Stream(IterableDataset):
    def __init__(self, manifest: list[str]):
        self.manifest = manifest

    def __iter__(self):
        info = get_worker_info()
        for entry in self.manifest[info.id :: info.num_workers]:
            where, path = entry.split(":", 1)
            for row in {"local": read_local, "store": read_store}[where](path):
                yield torch.from_numpy(np.array(row))


class Model(nn.Module):
    def __init__(self, width: int = 160):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(tokens), mask=self.mask, is_causal=True))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    manifest = write_corpus(Path("corpus"))
    loader = DataLoader(Stream(manifest), batch_size=BATCH, num_workers=2, prefetch_factor=2)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    batches = iter(loader)
    seen = 0
    for step in range(STEPS):
        begin = time.monotonic()
        rows = next(batches)
        loaded = time.monotonic()
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += rows.numel()
        line = {
            "step": step,
            "loss": round(loss.item(), 4),
            "grad_norm": round(norm.item(), 4),
            "tokens": seen,
            "time/data": round(loaded - begin, 3),
            "time/step": round(time.monotonic() - begin, 3),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
