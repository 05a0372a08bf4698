"""Rollouts that go on in child processes, each with a client of its own."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from model_clients import CLIENTS, Client, run_sync
from role_programs import judged

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Program = Callable[[Client], Awaitable[None]]

#: Of a child.
SCORE = 0.25


def ask(base_url: str, case: str, more: dict[str, Any], score: float | None = None) -> None:
    """In a child: one call, and a score."""
    # A new client: what a fork has of its parent's connections is the parent's.
    client = CLIENTS[case.partition("/")[0]][1](base_url, case, collects=False)
    client.more = more
    run_sync(client.ask())
    run_sync(client.close())
    if score is not None:
        otel_rl.reward("child", score)


def _in_process(client: Client, method: str, score: float | None = None) -> None:
    arguments = client.url, client.case, client.more, score
    process: Any = multiprocessing.get_context(method).Process(target=ask, args=arguments)  # type: ignore[attr-defined]
    process.start()
    process.join()
    assert process.exitcode == 0


def _in_pool(client: Client, method: str, times: int) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        for done in [pool.submit(ask, client.url, client.case, client.more) for _ in range(times)]:
            done.result()


def process(method: str) -> Program:
    """A call, and another with a score in a child."""

    async def program(client: Client) -> None:
        await client.ask()
        _in_process(client, method, SCORE)

    return program


def pool(method: str) -> Program:
    """A call, and three in a pool's workers."""

    async def program(client: Client) -> None:
        await client.ask()
        _in_pool(client, method, 3)

    return program


def judge_in_pool(method: str) -> Program:
    """A judge that is asked in a pool's workers."""

    async def program(client: Client) -> None:
        async def asks() -> None:
            _in_pool(client, method, 3)

        await client.ask()
        await judged(asks)

    return program


def tool_in_process(method: str) -> Program:
    """A tool that asks its model in a child."""

    async def program(client: Client) -> None:
        await client.ask()
        with otel_rl.tool("sandbox"):
            _in_process(client, method)

    return program


async def versions_of_a_child(client: Client) -> None:
    client.more = {"metadata": {"weight_version": "3"}}
    _in_process(client, "fork")
