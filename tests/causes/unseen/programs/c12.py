"""Rollouts whose lookup goes to a shared index."""

from __future__ import annotations

import asyncio

import rollouts
from bugs import now

import otel_rl

lookup = rollouts.lookup.__wrapped__


@otel_rl.tool("lookup")
async def shared_lookup(key: str) -> str:
    if any(now["step"] in range(begun, begun + 4) for begun in (19, 33, 45)):
        await asyncio.sleep(0.12)
    return await lookup(key)


rollouts.lookup = shared_lookup

if __name__ == "__main__":
    rollouts.main()
