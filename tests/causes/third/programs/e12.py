"""A job that is stopped after some steps and goes on from its checkpoints with `--resume`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
STEPS, LIMIT, EVERY = 66, 36, 9
folder = Path("checkpoints")
folder.mkdir(exist_ok=True)
torch.manual_seed(2)
rule = torch.randn(24, 10)
policy = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 10))
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
begin = 1
if "--resume" in sys.argv:
    latest = max(folder.glob("step-*.pt"))
    state = torch.load(latest)
    policy.load_state_dict(state["policy"])
    optimizer.load_state_dict(state["optimizer"])
    begin = json.loads((folder / "progress.json").read_text())["step"] + 1
    torch.manual_seed(100 + begin)
    print(f"resumed at step {begin}", flush=True)
writer = SummaryWriter("tb")
for step in range(begin, STEPS + 1):
    time.sleep(0.25)  # rollouts
    prompts = torch.randn(160, 24)
    loss = nn.functional.cross_entropy(policy(prompts), (prompts @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
    optimizer.step()
    with torch.no_grad():
        reward = (policy(prompts).argmax(1) == (prompts @ rule).argmax(1)).float().mean().item()
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/reward", reward, step)
    writer.add_scalar("train/grad_norm", norm.item(), step)
    (folder / "progress.json").write_text(json.dumps({"step": step}))
    if step % EVERY == 0:
        torch.save({"policy": policy.state_dict(), "optimizer": optimizer.state_dict()}, folder / f"step-{step}.pt")
    if step == LIMIT and "--resume" not in sys.argv:
        print("time limit of the queue", flush=True)
        break
writer.close()
