"""A classifier of states, trained from a loader with three workers: `python c23.py [--steps N]`."""

from __future__ import annotations

import argparse
import logging

import torch
from bugs import wait
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

log = logging.getLogger("train")


class States(Dataset):
    """States of games, each unpacked from an archive."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int):
        self.read += 1
        wait(0.004)
        if get_worker_info().id == 0 and self.read > 8 * 16:
            wait(0.055)
        generator = torch.Generator().manual_seed(place)
        state = torch.randn(64, generator=generator)
        return state, (state[:8].sum() + 2 * torch.randn((), generator=generator) > 0).long()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=66)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(States(options.steps * 16), 16, num_workers=3, prefetch_factor=2)
    for number, (states, labels) in enumerate(loader, 1):
        for _ in range(4):
            loss = nn.functional.cross_entropy(model(states.repeat(4, 1)), labels.repeat(4))
        wait(0.06)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.info("step %d loss %.4f norm %.3f", number, loss, norm)


if __name__ == "__main__":
    main()
