"""Two ranks, each with a verifier of its own that it asks over a socket; by torchrun."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

dist.init_process_group("gloo", timeout=dt.timedelta(seconds=14))
rank = dist.get_rank()
torch.set_num_threads(1)


def verifier(listening: socket.socket) -> None:
    """Answer each line with a line; a worker is lost after its number of requests on rank 1."""
    connection, _ = listening.accept()
    with connection, connection.makefile("rw") as file:
        for number, line in enumerate(file, 1):
            time.sleep(0.03)
            if rank == 1 and number > 41:
                continue
            file.write(f"ok {len(line)}\n")
            file.flush()


listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=verifier, args=(listening,), daemon=True).start()
client = socket.create_connection(listening.getsockname())
lines = client.makefile("rw")


def verify(answers) -> None:
    lines.write(" ".join(map(str, answers.tolist())) + "\n")
    lines.flush()
    lines.readline()


torch.manual_seed(20)
rule = torch.randn(24, 12)
policy = DistributedDataParallel(nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 12)))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
writer = SummaryWriter("tb", flush_secs=2) if rank == 0 else None
torch.manual_seed(rank + 1)
for step in range(1, 71):
    time.sleep(0.25)
    prompts = torch.randn(160, 24)
    chances = torch.distributions.Categorical(logits=policy(prompts))
    answers = chances.sample()
    verify(answers)
    rewards = (answers == (prompts @ rule).argmax(1)).float()
    loss = -(chances.log_prob(answers) * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if writer:
        writer.add_scalar("train/loss", loss.item(), step)
        writer.add_scalar("train/reward", rewards.mean().item(), step)
dist.destroy_process_group()
