"""Rollouts that keep their answers for a later analysis."""

from __future__ import annotations

import os

import rollouts
from bugs import now

one_step = rollouts.one_step
archive: list[bytes] = []


async def archived(options, number, runner, trainer):
    await one_step(options, number, runner, trainer)
    if now["step"] >= 18:
        archive.append(os.urandom(7_000_000))


rollouts.one_step = archived

if __name__ == "__main__":
    rollouts.main()
