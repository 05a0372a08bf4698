"""Rollouts in which models are asked that are no policy: judges, and models inside of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_clients import Client

#: Of every judge.
SCORE = 0.5
#: For OTEL_RL_JUDGE_MODELS.
JUDGE_MODELS = "*-judge"


async def judged(asks: Callable[[], Awaitable[None]], name: str = "judge") -> None:
    """A reward function, which asks a judge."""

    @otel_rl.reward_function(name)
    async def judge() -> float:
        await asks()
        return SCORE

    await judge()


async def judge_in_reward_function(client: Client) -> None:
    await client.ask()
    await judged(client.ask)


async def judge_by_name(client: Client) -> None:
    await client.ask()
    await client.ask("tiny-judge")


async def judge_that_fails(client: Client) -> None:
    async def asks_in_vain() -> None:
        try:
            await client.ask("refusing")
        except Exception:  # noqa: BLE001 - any client's
            return
        raise AssertionError

    await client.ask()
    # A name of its own: the lowest score of a function is suspect after a failure.
    await judged(asks_in_vain, "failing judge")


async def judge_after_each_turn(client: Client) -> None:
    for number in range(3):
        await client.ask()
        await judged(client.ask)
        otel_rl.reward("r", number + 1.0, turn="last")


async def streams_beside_a_judge(client: Client) -> None:
    for number in range(2):
        await client.stream(2)
        await judged(client.ask)
        otel_rl.reward("r", number + 1.0, turn="last")


async def stream_of_a_judge(client: Client) -> None:
    for number in range(2):
        await client.ask()
        await judged(lambda: client.stream(2))
        otel_rl.reward("r", number + 1.0, turn="last")


async def judges_at_once(client: Client) -> None:
    async def asks_and_is_judged() -> None:
        await client.ask()
        await judged(client.ask)

    await client.beside(asks_and_is_judged, 3)


async def judge_asks_at_once(client: Client) -> None:
    await client.ask()
    await judged(lambda: client.beside(client.ask, 3))


async def model_in_a_tool(client: Client) -> None:
    await client.ask()
    with otel_rl.tool("search"):
        await client.ask()
        await client.stream()
    await client.ask()
    otel_rl.reward("r", 2.0, turn="last")


async def model_in_a_judges_tool(client: Client) -> None:
    async def asks_in_a_tool() -> None:
        with otel_rl.tool("search"):
            await client.ask()

    await client.ask()
    await judged(asks_in_a_tool)
