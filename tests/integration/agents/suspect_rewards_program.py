"""Rollouts with a model and a tool, of which one in five fails: `suspect_rewards_program.py MODEL TOOLS`.

Each rollout asks a model over HTTP and calls a tool of a server of MCP. A failure costs the reward, and other rollouts
have zeros that they deserve. Prints the ids by kind of failure, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
from collections import defaultdict

import openai
from support.mcp_sessions import session, text_of

import otel_rl

STEPS, GROUPS, SAMPLES = 5, 3, 8
KINDS = ("tool_error", "tool_timeout", "refused", "overloaded", "aborted", "sandbox_timeout", "rollout_timeout")
#: What the model is called whose server answers so.
MODELS = {"overloaded": "missing", "aborted": "aborting"}


async def solve(number: int, kind: str | None, models: dict[str, openai.AsyncOpenAI], tools) -> bool:
    """True where the task is done; half of the tasks are too hard."""
    client = models["refused" if kind == "refused" else "up"]
    question = [{"role": "user", "content": "add"}]
    answer = await client.chat.completions.create(model=MODELS.get(kind, "tiny"), messages=question)
    if answer.choices[0].finish_reason != "stop":
        return False
    if kind == "tool_error":
        return text_of(await tools.call_tool("boom", {"text": "x"})) == "never"
    if kind == "tool_timeout":
        await asyncio.wait_for(tools.call_tool("block", {}), 0.02)
    if kind == "sandbox_timeout":
        with otel_rl.span("sandbox"):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
    result = await tools.call_tool("add", {"a": number, "b": 1})
    return text_of(result) == str(number + 1) and number % 2 == 0


async def roll_out(number: int, group: str, kind: str | None, models, tools) -> None:
    with otel_rl.rollout(f"r-{number}", group_id=group) as it:
        try:
            done = await solve(number, kind, models, tools)
        except (openai.OpenAIError, TimeoutError, asyncio.TimeoutError):
            done = False
        if kind == "rollout_timeout":
            done = False
            it.fail("timeout")
        otel_rl.reward("done", float(done), success=done)


async def main(model_url: str, tools_url: str) -> None:
    chosen = random.Random(7)  # noqa: S311 - no secret
    injected = defaultdict(list)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        urls = {"up": model_url, "refused": refusing}
        models = {name: openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) for name, url in urls.items()}
        async with session(tools_url) as tools:
            number = 0
            for step in range(1, STEPS + 1):
                with otel_rl.step(step):
                    for group in range(GROUPS):
                        waiting = []
                        for _ in range(SAMPLES):
                            kind = KINDS[number % len(KINDS)] if chosen.random() < 0.2 else None
                            if kind:
                                injected[kind].append(f"r-{number}")
                            waiting.append(roll_out(number, f"{step}-{group}", kind, models, tools))
                            number += 1
                        await asyncio.gather(*waiting)
    print(json.dumps(injected))


asyncio.run(main(*sys.argv[1:]))
