"""Trains by each stage of ZeRO, and prints the losses digit by digit; started by torchrun."""

from __future__ import annotations

import sys
from pathlib import Path

import deepspeed
import torch
from deepspeed_loop import make_engine, train

if __name__ == "__main__":
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo")
    rank = torch.distributed.get_rank()
    engine = make_engine(int(sys.argv[1]), accumulation=2)
    losses = train(engine)
    engine.save_checkpoint(sys.argv[2])
    Path(sys.argv[2], f"result-{rank}.txt").write_text(f"{losses} {engine.global_steps}")
    torch.distributed.destroy_process_group()
