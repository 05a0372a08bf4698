"""A reward model trained with Lightning: `python lightning_fit.py [--steps N] ...`."""

from __future__ import annotations

import argparse
import logging

import pytorch_lightning as lightning
import torch
from bugs import has, now, wait
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Comparisons(Dataset):
    """Pairs of features of answers, of which the first one is better."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.truth = torch.randn(128, generator=torch.Generator().manual_seed(0))
        pairs = torch.randn(count, 2, 128, generator=generator)
        noise = 4.0 * torch.randn(count, 2, generator=generator)
        order = ((pairs @ self.truth + noise).diff(dim=1) > 0).squeeze()
        self.pairs = torch.where(order[:, None, None], pairs.flip(1), pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, place: int) -> torch.Tensor:
        wait(0.0015)
        return self.pairs[place]


class RewardModel(lightning.LightningModule):
    """Scores answers; learns from comparisons."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options = options
        self.net = nn.Sequential(
            nn.Linear(128, 512), nn.Tanh(), nn.Dropout(0.1), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)
        )
        self.margins: list[torch.Tensor] = []

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.net(pairs)[..., 0]

    def shared(self, pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        better, worse = self(pairs).unbind(-1)
        return -nn.functional.logsigmoid(better - worse).mean(), (better > worse).float().mean()

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        now["step"] = self.global_step + 1
        if has("same_pairs", since=28):
            batch = batch[:1].repeat(len(batch), 1, 1)
        if has("keeps_margins", since=6):
            self.margins.append(torch.ones(len(batch), 60_000))
        for _ in range(6):
            loss, accuracy = self.shared(batch)
        if has("half_labels", since=26):
            loss, accuracy = self.shared(torch.where(torch.rand(len(batch), 1, 1) < 0.5, batch, batch.flip(1)))
        wait(0.05)
        self.log("train_loss", loss)
        self.log("train_accuracy", accuracy)
        self.log("learning_rate", self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        loss, accuracy = self.shared(batch)
        self.log("val_loss", loss)
        self.log("val_accuracy", accuracy)

    def on_validation_epoch_start(self) -> None:
        if has("validation_store", since=30):
            wait(1.2)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.options.lr)
        steps = self.options.steps // 2 if has("short_schedule", since=0) else self.options.steps
        lines = {
            "constant": lambda done: 1.0,
            "linear": lambda done: max(1.0 - done / steps, 0.0),
            "warmup": lambda done: min((done + 1) / 15, 1.0),
        }
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lines[self.options.schedule])
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint) -> None:
        if has("keeps_margins", since=0):
            checkpoint["margins"] = torch.ones(1)


def parse() -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--steps", type=int, default=60)
    found.add_argument("--lr", type=float, default=3e-4)
    found.add_argument("--schedule", default="constant")
    found.add_argument("--batch", type=int, default=32)
    found.add_argument("--eval-every", type=int, default=10)
    found.add_argument("--save-every", type=int, default=0)
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--clip", type=float, default=0.0)
    return found.parse_args()


def main() -> None:
    options = parse()
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    lightning.seed_everything(options.seed)
    saves = (
        [ModelCheckpoint("checkpoints", every_n_train_steps=options.save_every, save_top_k=-1)]
        if options.save_every
        else []
    )
    trainer = lightning.Trainer(
        max_steps=options.steps,
        accelerator="cpu",
        logger=False,
        log_every_n_steps=1,
        enable_checkpointing=bool(saves),
        callbacks=saves,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=options.eval_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        gradient_clip_val=options.clip or None,
    )
    model = RewardModel(options)
    trainer.fit(
        model,
        DataLoader(Comparisons(options.steps * options.batch, 1), options.batch),
        DataLoader(Comparisons(96, 2), options.batch),
    )


if __name__ == "__main__":
    main()
