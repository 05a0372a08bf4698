"""A training loop as people write it for one GPU; prints its losses and how it counted its own optimizer steps.

Arguments: number of batches, and one of `eager`, `scaler`, `compiled`, `graphed`.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

BATCHES, KIND = int(sys.argv[1]), sys.argv[2]
WIDTH, LENGTH, WORDS = 128, 64, 512
#: Batches before the loop may no longer wait for the device: what is set up once may.
WARM = 5


class Model(nn.Module):
    """A language model of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.layers(self.words(tokens[:, :-1])))
        return functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


def main() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, WORDS, (BATCHES * 16, LENGTH)))
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=KIND == "graphed")
    losses, true_steps, began = {"eager": eager, "scaler": scaler, "compiled": compiled, "graphed": graphed}[KIND](
        model, optimizer, DataLoader(data, batch_size=16, pin_memory=True)
    )
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    print(json.dumps({"losses": torch.stack(losses).tolist(), "steps": true_steps, "seconds": seconds}))


def eager(model, optimizer, batches):
    """Mixed precision, clipping and a schedule, with nothing that waits for the device once it is warm."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    losses, began = [], 0.0
    for number, (tokens,) in enumerate(batches):
        if number == WARM:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens.cuda(non_blocking=True))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    torch.cuda.set_sync_debug_mode("default")
    return losses, len(losses), began


def scaler(model, optimizer, batches):
    """Half precision: every fourth batch overflows, and its step is left out."""
    scale = torch.amp.GradScaler("cuda")
    losses, steps, began = [], 0, time.perf_counter()
    for number, (tokens,) in enumerate(batches):
        with torch.autocast("cuda", torch.float16):
            loss = model(tokens.cuda(non_blocking=True))
        scale.scale(loss * float("inf") if number % 4 == 3 else loss).backward()
        before = scale.get_scale()
        scale.step(optimizer)
        scale.update()
        steps += scale.get_scale() >= before
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, steps, began


def compiled(model, optimizer, batches):
    """Model and optimizer step compiled."""
    model = torch.compile(model)
    step = torch.compile(optimizer.step)
    losses, began = [], time.perf_counter()
    for (tokens,) in batches:
        loss = model(tokens.cuda(non_blocking=True))
        loss.backward()
        step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, len(losses), began


def graphed(model, optimizer, batches):
    """Forward, backward and optimizer step in one CUDA graph, as PyTorch's notes on CUDA graphs show it."""
    batches = iter(batches)
    tokens = next(batches)[0].cuda()

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses, began = [], time.perf_counter()
    for (batch,) in batches:
        tokens.copy_(batch)
        graph.replay()
        losses.append(loss.detach().clone())
    return losses, 3 + len(losses), began


main()
