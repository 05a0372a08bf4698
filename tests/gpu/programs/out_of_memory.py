"""Asks for more memory in its fourth step than the GPU has."""

from __future__ import annotations

import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(6):
    loss = model(torch.randn(16, 1024, device="cuda")).square().mean()
    if number == 3:
        torch.empty(2**40, dtype=torch.int8, device="cuda")
    loss.backward()
    optimizer.step()
