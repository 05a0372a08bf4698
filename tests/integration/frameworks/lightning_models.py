"""Small modules for Lightning, in either of its two packages, with a seed and without a device."""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

BATCHES = 6
SAMPLES = 4


def loader(batches=BATCHES):
    torch.manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(batches * SAMPLES, 3)), batch_size=SAMPLES)


def trainer(package, directory, **options):
    """A trainer that shows nothing; without a logger unless told otherwise."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    steady = {"accelerator": "cpu", "devices": 1, "log_every_n_steps": 1, "enable_checkpointing": False}
    return package.Trainer(default_root_dir=str(directory), **{**steady, **quiet, "max_epochs": 1, **options})


def regression(package, **logged):
    """A module that optimizes automatically and logs its loss, and what it is given."""

    class Regression(package.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.layer = torch.nn.Linear(3, 3)
            self.losses = []

        def training_step(self, batch, _):
            loss = functional.mse_loss(self.layer(batch[0]), batch[0])
            self.losses.append(loss.item())
            self.log("loss", loss, batch_size=SAMPLES)
            self.log_dict(logged, batch_size=SAMPLES)
            return loss

        def validation_step(self, batch, _):
            self.log("val_loss", functional.mse_loss(self.layer(batch[0]), batch[0]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Regression()


def adversaries(package):
    """A module with two optimizers, which it calls itself."""

    class Adversaries(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            torch.manual_seed(1)
            self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def training_step(self, batch, _):
            for part, optimizer in zip((self.one, self.other), self.optimizers(), strict=True):
                loss = part(batch[0]).pow(2).mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.one, self.other)]

    return Adversaries()
