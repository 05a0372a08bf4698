"""Lightning's README on two processes that Lightning starts itself: prints each loss of rank 0, digit by digit."""

from __future__ import annotations

import sys

import lightning
import torch
from lightning_models import loader, regression, trainer
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.set_num_threads(1)
    module = regression(lightning)
    torch.manual_seed(0)
    data = DataLoader(TensorDataset(torch.randn(64, 3)), batch_size=4)
    fit = trainer(lightning, sys.argv[1], devices=2, strategy="ddp", accumulate_grad_batches=2)
    fit.fit(module, data, loader(2))
    if fit.is_global_zero:
        print(module.losses, fit.global_step)
