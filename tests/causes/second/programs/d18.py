"""Supervised fine-tuning of a small Llama in plain PyTorch, from a base checkpoint, with evaluation."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, get_cosine_schedule_with_warmup

STEPS = 80
VOCABULARY = 512
BATCH = 8
LENGTH = 80


def rows(generator: torch.Generator, count: int = BATCH) -> torch.Tensor:
    starts = torch.randint(VOCABULARY, (count, 1), generator=generator)
    strides = torch.randint(1, 6, (count, 1), generator=generator)
    return (starts + strides * torch.arange(LENGTH)) % VOCABULARY


def make_base(folder: Path) -> None:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=640,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        bos_token_id=0,
        eos_token_id=0,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


class Job:
    def __init__(self, base: Path):
        self.base = base
        self.model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3, weight_decay=0.0)
        self.schedule = get_cosine_schedule_with_warmup(self.optimizer, 8, STEPS)
        self.held_out = rows(torch.Generator().manual_seed(77), 24)

    def load_weights(self) -> None:
        """Load the newest checkpoint, or the base if there is none."""
        found = sorted(Path("checkpoints").glob("step-*"))
        self.model = AutoModelForCausalLM.from_pretrained(found[-1] if found else self.base, dtype=torch.float32)

    @torch.no_grad()
    def evaluate(self) -> float:
        self.model.eval()
        loss = self.model(input_ids=self.held_out, labels=self.held_out).loss.item()
        self.model.train()
        return loss

    def run(self) -> None:
        self.load_weights()
        self.model.train()
        generator = torch.Generator().manual_seed(2)
        for step in range(1, STEPS + 1):
            begin = time.monotonic()
            tokens = rows(generator)
            loss = self.model(input_ids=tokens, labels=tokens).loss
            self.model.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            line = {
                "step": step,
                "loss": round(loss.item(), 4),
                "grad_norm": round(norm.item(), 4),
                "lr": self.schedule.get_last_lr()[0],
                "seconds": round(time.monotonic() - begin, 3),
            }
            if step % 20 == 0:
                line["eval_loss"] = round(self.evaluate(), 4)
            print(json.dumps(line), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    base = Path("base")
    make_base(base)
    Job(base).run()


if __name__ == "__main__":
    main()
