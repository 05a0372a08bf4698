"""Fine-tuning of a policy in Lightning with validation, checkpoints and a warm-up."""

from __future__ import annotations

import math
import time

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
pl.seed_everything(15)
EPOCHS, BATCH, SAMPLES = 3, 48, 1008


class Policy(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Dropout(0.1), nn.Linear(96, 16))

    def _loss(self, batch):
        prompts, answers = batch
        return nn.functional.cross_entropy(self.net(prompts), answers)

    def training_step(self, batch, _):
        time.sleep(0.22 + 0.06 * torch.rand(()).item())
        loss = self._loss(batch)
        self.log("train/loss", loss, on_step=True, on_epoch=False)
        return loss

    def validation_step(self, batch, _):
        time.sleep(0.15)
        self.log("val/loss", self._loss(batch), on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        total = EPOCHS * SAMPLES // BATCH
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / 8, 0.5 + 0.5 * math.cos(math.pi * step / total))
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def data(number: int, rule) -> TensorDataset:
    prompts = torch.randn(number, 24)
    return TensorDataset(prompts, (prompts @ rule).argmax(1))


rule = torch.randn(24, 16)
trainer = pl.Trainer(
    max_epochs=EPOCHS,
    accelerator="cpu",
    log_every_n_steps=1,
    val_check_interval=7,
    gradient_clip_val=1.0,
    callbacks=[pl.callbacks.ModelCheckpoint("kept", monitor="val/loss"), pl.callbacks.LearningRateMonitor("step")],
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=pl.loggers.TensorBoardLogger("tb"),
)
trainer.fit(Policy(), DataLoader(data(SAMPLES, rule), BATCH, shuffle=True), DataLoader(data(192, rule), BATCH))
