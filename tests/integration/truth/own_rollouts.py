"""Programs that open their rollouts themselves: rewards that come later, versions of engines, failures among others.

The row that is looked at is that of the case; further rollouts have ids of their own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_clients import Client


async def rewarded_in_the_step(client: Client) -> None:
    with otel_rl.step(1):
        with otel_rl.rollout(client.case) as it:
            await client.ask()
        it.reward("by handle", 1.0)
        otel_rl.reward("by id", 0.5, rollout=client.case)


async def rewarded_after_the_record(client: Client) -> None:
    with otel_rl.rollout(client.case) as it:
        await client.ask()
    assert otel_rl.flush(30)
    it.reward("by handle", 1.0)
    otel_rl.reward("by id", 0.5, rollout=client.case)


# -- failures ------------------------------------------------------------------------------------------------------


def outcome_of(case: str) -> str:
    """The reward function of a case: the lowest reward of each is its own."""
    return f"outcome of {case}"


def failed_among_others(reward: float, *, late: bool = False) -> Callable[[Client], Awaitable[None]]:
    """A call of the last of ten rollouts fails; the lowest reward of their function is -1, as one of them has it."""

    async def program(client: Client) -> None:
        name, others = outcome_of(client.case), []
        for number in range(9):
            with otel_rl.rollout(f"{client.case} {number}") as it:
                pass
            others.append((it, -1.0 if number == 0 else number / 10))
        with otel_rl.rollout(client.case) as failed:
            with suppress(Exception):
                await client.ask("refusing")
        if late:
            assert otel_rl.flush(30)
        for it, score in [*others, (failed, reward)]:
            it.reward(name, score)

    return program


# -- versions of the weights -----------------------------------------------------------------------------------------


def _engine(client: Client, name: str) -> Callable[[int], Awaitable[None]]:
    """An engine of this case alone: a model of the server. It answers with the version that it is asked for."""

    async def ask(version: int) -> None:
        client.more = {"metadata": {"weight_version": str(version)}}
        await client.ask(f"{name} {client.case}")

    return ask


async def two_engines(client: Client) -> None:
    fast, slow = _engine(client, "fast"), _engine(client, "slow")
    with otel_rl.rollout(client.case):
        await fast(3)
        await slow(900)
        await fast(4)


async def engine_left_behind(client: Client) -> None:
    fast, slow = _engine(client, "fast"), _engine(client, "slow")
    for version in (1, 2):
        with otel_rl.rollout(f"{client.case} {version}"):
            await fast(version)
            await slow(version)
    with otel_rl.rollout(f"{client.case} after"):
        await fast(3)
        await fast(4)
    with otel_rl.rollout(client.case):
        await slow(2)
