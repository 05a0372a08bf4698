"""Fine-tuning of a policy on accepted answers in Lightning."""

from __future__ import annotations

import time

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
pl.seed_everything(5)
EPOCHS, BATCH, SAMPLES, ACCUMULATE = 2, 32, 1024, 2


class Policy(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 16))

    def training_step(self, batch, _):
        time.sleep(0.3)
        prompts, answers = batch
        logits = self.net(prompts)
        loss = nn.functional.cross_entropy(logits, answers)
        self.log("train/loss", loss, on_step=True, on_epoch=False)
        self.log("train/accuracy", (logits.argmax(1) == answers).float().mean(), on_step=True, on_epoch=False)
        self.log("train/lr", self.optimizers().param_groups[0]["lr"], on_step=True, on_epoch=False)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-3)
        total = EPOCHS * SAMPLES // BATCH // ACCUMULATE
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - (step + 1) / total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


prompts = torch.randn(SAMPLES, 24)
data = TensorDataset(prompts, (prompts @ torch.randn(24, 16)).argmax(1))
trainer = pl.Trainer(
    max_epochs=EPOCHS,
    accelerator="cpu",
    log_every_n_steps=1,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=pl.loggers.TensorBoardLogger("tb"),
)
trainer.fit(Policy(), DataLoader(data, batch_size=BATCH, shuffle=True))
