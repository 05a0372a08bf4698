"""A training loop of a user; it prints how the trajectories ended and the rewards it saw."""

from __future__ import annotations

import asyncio
import json

import torch
from sorter.agent import Agent

HANGING = [7, 6, 5, 4, 3, 2, 1]
#: The last three: one is empty and fails, one the judge gives up on, one hangs and is cancelled.
PROMPTS = [[2, 1], [1, 2, 3], [777001, 777002, 777003], [], [6, 5, 4, 3, 2, 1], HANGING]


async def sample(agent: Agent) -> list[object]:
    """Trajectories of all prompts at once."""
    calls = [asyncio.wait_for(agent.run(numbers), 1.0 if numbers is HANGING else 60.0) for numbers in PROMPTS]
    return await asyncio.gather(*calls, return_exceptions=True)


def main() -> None:
    """Train."""
    torch.manual_seed(0)
    policy = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
    agent = Agent(policy)
    seen = []
    for _ in range(2):
        results = asyncio.run(sample(agent))
        made = [one for one in results if isinstance(one, tuple)]
        loss = -sum(log_probability * reward for log_probability, reward in made)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += [one[1] if isinstance(one, tuple) else type(one).__name__ for one in results]
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
