"""An agent that sorts numbers by asking its policy which of two neighbours to exchange."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import torch

from sorter.rewards import Judge, correct


class Agent:
    """Makes one trajectory at a time."""

    def __init__(self, policy: torch.nn.Module) -> None:
        self._policy = policy
        self._judge = Judge(patience=5)

    async def run(self, numbers: list[int]) -> tuple[torch.Tensor, float]:
        """Log-probability and reward of one trajectory."""
        if not numbers:
            raise ValueError("nothing to sort in this secret-prompt")
        answer, log_probability = list(numbers), torch.zeros(())
        for place in range(len(answer) - 1):
            state = torch.tensor([answer[place], answer[place + 1]], dtype=torch.float32)
            choice = torch.distributions.Bernoulli(logits=self._policy(state)[0])
            exchange = choice.sample()
            log_probability = log_probability + choice.log_prob(exchange)
            if exchange:
                answer[place], answer[place + 1] = answer[place + 1], answer[place]
            await asyncio.sleep(0)
        if len(answer) > 6:
            await asyncio.get_running_loop().create_future()
        reward = correct(answer, numbers=numbers)
        with suppress(TimeoutError):
            reward += float(self._judge(answer)["score"])
        return log_probability, reward
