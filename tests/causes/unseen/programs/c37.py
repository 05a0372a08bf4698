"""Two ranks with batches that a sampler makes."""

from __future__ import annotations

import ddp
from bugs import now
from torch.utils.data import DataLoader


class Batches:
    """Batches of rows; the second node packs them differently."""

    def __init__(self, sampler, size: int) -> None:
        self.sampler, self.size = sampler, size

    def __iter__(self):
        rows = list(self.sampler)
        number = 0
        while rows:
            number += 1
            size = self.size // 4 if ddp.RANK == 1 and number >= 22 else self.size
            yield rows[:size]
            rows = rows[size:]


def packed(texts, batch, sampler=None):
    return DataLoader(texts, batch_sampler=Batches(sampler, batch)) if sampler else DataLoader(texts, batch)


ddp.DataLoader = packed
assert now["step"] == 0

if __name__ == "__main__":
    ddp.main()
