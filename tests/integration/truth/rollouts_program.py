"""Runs rollouts, `CLIENT/SHAPE` each, with or without garbage collections; prints what of them failed as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import traceback
from contextlib import suppress

from model_clients import CLIENTS, Client, run_sync
from rollout_shapes import SHAPES, ProgramError, Shape

import otel_rl


async def rollout(shape: Shape, client: Client) -> None:
    if shape.opens_rollouts:
        await shape.program(client)
        return
    with otel_rl.rollout(client.case):
        await shape.program(client)


async def one(shape: Shape, kind: type[Client], base_url: str, case: str, *, collects: bool) -> None:
    # Made in the event loop that it is used in.
    client = kind(base_url, case, collects=collects)
    with suppress(ProgramError):
        await rollout(shape, client)
    client.held.clear()
    await client.close()


def main(base_url: str, collects: bool, cases: list[str]) -> dict[str, str]:
    """Run the cases; return the tracebacks of those that failed."""
    shapes = {shape.name: shape for shape in SHAPES}
    failed = {}
    # One for all: the client of LangChain lives on from case to case.
    loop = asyncio.new_event_loop()
    for case in cases:
        name, shape = case.split("/")
        kind = CLIENTS[name][1]
        running = one(shapes[shape], kind, base_url, case, collects=collects)
        try:
            if kind.is_async:
                loop.run_until_complete(running)
            else:
                run_sync(running)
        except BaseException:  # noqa: BLE001 - the test shows it
            failed[case] = traceback.format_exc()
        # What a case has left belongs to its own rollout.
        gc.collect()
    loop.close()
    return failed


if __name__ == "__main__":
    gc.disable()
    print(json.dumps(main(sys.argv[1], sys.argv[2] == "collects", sys.argv[3:])))
