"""Rollouts that begin with examples of earlier answers."""

from __future__ import annotations

import random

import rollouts
from bugs import now

converse = rollouts.Runner.converse
examples: list[str] = []


async def with_examples(self, client, question):
    said = await converse(self, client, question)
    if now["step"] >= 15 and random.random() < 0.25:
        examples.append(f"{question}: {said}")
        rollouts.SYSTEM = BASE + " Examples: " + "; ".join(examples)
    return said


BASE = rollouts.SYSTEM
rollouts.Runner.converse = with_examples

if __name__ == "__main__":
    rollouts.main()
