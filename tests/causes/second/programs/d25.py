"""Pre-training-like run: batch size and length grow by plan, the garbage is collected by plan too."""

from __future__ import annotations

import gc
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter

STEPS = 84
VOCABULARY = 512
#: Step from which on: rows of a batch, tokens of a row.
PLAN = {0: (8, 48), 24: (12, 64), 56: (20, 80)}


class Rows(Dataset):
    def __init__(self, count: int, length: int):
        self.count, self.length = count, length

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(place)
        start, stride = torch.randint(1, 6, (2,), generator=generator).tolist()
        noise = torch.rand(self.length + 1, generator=generator) < 0.05
        row = (start * place + stride * torch.arange(self.length + 1)) % VOCABULARY
        return torch.where(noise, torch.randint(VOCABULARY, row.shape, generator=generator), row)


class Model(nn.Module):
    def __init__(self, width: int = 224):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.body(self.embedding(tokens), mask=mask, is_causal=True))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 12) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / STEPS)))
    )
    writer = SummaryWriter("runs/plan")
    history: list[dict[str, float]] = []
    begins = [*PLAN, STEPS]
    gc.disable()
    for number, (first, (size, length)) in enumerate(PLAN.items()):
        count = (begins[number + 1] - first) * size
        loader = DataLoader(Rows(count, length), batch_size=size, shuffle=True, num_workers=2)
        for step, rows in enumerate(loader, first):
            begin = time.monotonic()
            logits = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            history.append(
                {
                    "loss": loss.item(),
                    "grad_norm": norm.item(),
                    "lr": schedule.get_last_lr()[0],
                    "batch/rows": size,
                    "batch/length": length,
                    "time/step": time.monotonic() - begin,
                }
            )
            for name, one in history[-1].items():
                writer.add_scalar(name, one, step)
            if step % 7 == 0:
                print(f"step {step}: " + " ".join(f"{name}={one:.4g}" for name, one in history[-1].items()), flush=True)
            if step % 15 == 14:
                gc.collect()
    writer.close()


if __name__ == "__main__":
    main()
