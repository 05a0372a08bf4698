"""The loop of DeepSpeed's first page on the CPU, with two groups of parameters, which ZeRO updates one by one."""

from __future__ import annotations

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

#: Else it compiles an operation for shared memory, which takes minutes.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

BATCHES, SAMPLES = 8, 4


def make_engine(stage, accumulation, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    names = dict(model.named_parameters())
    groups = [{"params": [one for name, one in names.items() if name.endswith(end)]} for end in ("weight", "bias")]
    config = {
        "train_micro_batch_size_per_gpu": SAMPLES,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1000,
        **options,
    }
    return deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=0.01), config=config)[0]


def train(engine):
    """Train for one epoch; returns the losses."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(BATCHES * SAMPLES * ranks, 8), torch.randn(BATCHES * SAMPLES * ranks, 1))
    losses = []
    for features, targets in DataLoader(data, SAMPLES, sampler=DistributedSampler(data, ranks, rank, shuffle=False)):
        loss = functional.mse_loss(engine(features), targets)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses
