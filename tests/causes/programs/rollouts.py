"""Rollouts of an agent in asyncio against two model servers; what they collect goes to a trainer elsewhere.

python rollouts.py [--steps 55] [--rollouts 12] [--at-once 6] ...
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import re
import socket
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from bugs import has, now, wait
from openai import APIError, AsyncOpenAI

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "policy"
SERVER = Path(__file__).with_name("model_server.py")
SYSTEM = "You solve sums. Use the tools, then say: the answer is N."
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {argument: {"type": "string"}}}},
    }
    for name, argument in (("lookup", "key"), ("bash", "command"))
]
log = logging.getLogger("rollouts")


# -- tools ------------------------------------------------------------------------------------------------------------


@otel_rl.tool("lookup")
async def lookup(key: str) -> str:
    await asyncio.sleep(0.006 * random.lognormvariate(0.0, 0.25))
    return f"{key}: see chapter {random.randint(1, 40)}"


@otel_rl.tool("bash")
async def bash(command: str) -> str:
    await asyncio.sleep((0.009 + slow_tool["seconds"]) * random.lognormvariate(0.0, 0.25))
    if random.random() < 0.01:
        raise TimeoutError(command)
    left, right = re.findall(r"\d+", command)
    return str(int(left) + int(right))


slow_tool = {"seconds": 0.0}


async def use(call: Any) -> str:
    function = {"lookup": lookup, "bash": bash}[call.function.name]
    try:
        return await function(**json.loads(call.function.arguments))
    except TimeoutError:
        return "Error: timeout"


# -- one rollout ------------------------------------------------------------------------------------------------------


class Runner:
    """Runs the rollouts of a step."""

    def __init__(self, options: argparse.Namespace, ports: list[int]) -> None:
        self.options = options
        self.ports = ports
        self.clients = [AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none") for port in ports]
        self.permits = asyncio.Semaphore(options.at_once)
        self.permits_left = options.at_once
        self.buffer: list[float] = []
        self.stored: set[asyncio.Task] = set()

    def client_for(self, place: int) -> AsyncOpenAI:
        if has("sticky_route", since=26):
            return self.clients[0]
        return self.clients[place % len(self.clients)]

    async def run(self, place: int, number: int) -> float | None:
        question = f"{random.randrange(self.options.largest)} + {random.randrange(self.options.largest)}"
        name = f"{number}-{place // 4}"
        with otel_rl.rollout(sample_id=question, group_id=name, policy_version=number) as record:
            await self.permits.acquire()
            try:
                said = await self.converse(self.client_for(place), question)
            except (APIError, json.JSONDecodeError) as error:
                log.info("rollout %s-%s failed: %s", name, place, type(error).__name__)
                said = None
            if not (has("permit_leak", since=12, every=4) and place == 0 and self.permits_left > 2):
                self.permits.release()
            else:
                self.permits_left -= 1
            if said is None:
                otel_rl.reward("exact", 0.0)
                return 0.0
            reward = self.score(said, question)
            record.succeed(reward > 0.9)
        task = asyncio.create_task(self.store(question, reward))
        self.stored.add(task)
        task.add_done_callback(self.stored.discard)
        return reward

    async def converse(self, client: AsyncOpenAI, question: str) -> str:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        for _ in range(self.options.turns):
            answer = await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=1.0)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            (call,) = message.tool_calls
            messages.append({"role": "tool", "tool_call_id": call.id, "content": await use(call)})
        return ""

    def score(self, said: str, question: str) -> float:
        left, right = map(int, question.split(" + "))
        exact = float(said.endswith(f"is {left + right}"))
        short = max(1.0 - len(said) / 400, 0.0)
        otel_rl.reward("exact", exact)
        otel_rl.reward("short", short, weight=0.2)
        return exact + 0.2 * short

    async def store(self, question: str, reward: float) -> None:
        """Put the trajectory into the buffer of the trainer."""
        await asyncio.sleep(0.002)
        if has("store_key", since=21):
            levels = {str(digit): digit for digit in range(0, 10, 2)}
            self.buffer.append(reward + 0 * levels[question[-1]])
            return
        self.buffer.append(reward)


# -- the loop ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def servers() -> Iterator[list[int]]:
    """Ports of two model servers; they are stopped at the end."""
    ports = [free_port(), free_port()]
    processes = [subprocess.Popen([sys.executable, SERVER, str(port), str(place)]) for place, port in enumerate(ports)]
    try:
        for port in ports:
            await_server(port)
        yield ports
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_server(port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        wait(0.1)
    raise SystemExit("the model server does not start")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=55)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--largest", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-tool", type=float, default=0.0, help="seconds that bash takes longer, always")
    parser.add_argument("--ramp", type=int, default=0, help="steps until all rollouts of a step are made")
    return parser.parse_args(arguments)


async def train(options: argparse.Namespace, ports: list[int]) -> None:
    runner = Runner(options, ports)
    async with httpx.AsyncClient() as trainer:
        for number in range(1, options.steps + 1):
            now["step"] = number
            with otel_rl.step(number):
                await one_step(options, number, runner, trainer)


async def one_step(options: argparse.Namespace, number: int, runner: Runner, trainer: httpx.AsyncClient) -> None:
    wanted = options.rollouts
    if options.ramp:
        wanted = max(4, min(wanted, wanted * number // options.ramp))
    with otel_rl.phase("sample"):
        rewards = await asyncio.gather(*(runner.run(place, number) for place in range(wanted)))
        await asyncio.sleep(0.01)
    with otel_rl.phase("train"):
        batch, runner.buffer = runner.buffer, []
        await asyncio.sleep(0.05 * random.lognormvariate(0.0, 0.15))
    with otel_rl.phase("sync"):
        for port in runner.ports:
            (await trainer.post(f"http://127.0.0.1:{port}/weights", json={"version": number + 1})).raise_for_status()
    known = [one for one in rewards if one is not None]
    otel_rl.metric("reward", statistics.fmean(known))
    otel_rl.metric("reward_std", statistics.pstdev(known))
    otel_rl.metric("batch_size", len(batch))
    log.info("step %d: mean reward %.3f of %d rollouts", number, statistics.fmean(known), len(known))


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    random.seed(options.seed)
    slow_tool["seconds"] = options.slow_tool
    with servers() as ports:
        log.info("model servers: first=127.0.0.1:%d second=127.0.0.1:%d", *ports)
        asyncio.run(train(options, ports))


if __name__ == "__main__":
    main()
