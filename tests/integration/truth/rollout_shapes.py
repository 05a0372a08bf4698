"""The shapes of rollouts, one a line of :data:`SHAPES`: a small program, and what its row has to say.

The server sends 7 tokens and 3 come back, in each answer that is read to its end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from model_clients import SHORT

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_clients import Client

GIVEN, MADE = 7, 3


class Truth(NamedTuple):
    """What is true of a rollout; tokens are those of so many answers that were read to their ends."""

    turns: int
    calls: int
    errors: int = 0
    read: int = 0
    turn_rewards: list[float] | None = None
    status: str = "finished"
    #: That reach the server; None for one per call.
    requests: int | None = None

    def row(self) -> dict[str, Any]:
        """The columns of its row."""
        return {
            "rl.rollout.turns": self.turns,
            "rl.rollout.model_calls": self.calls,
            "rl.rollout.model_errors": self.errors,
            "rl.rollout.input_tokens": GIVEN * self.read or None,
            "rl.rollout.output_tokens": MADE * self.read or None,
            "rl.rollout.turn_rewards": self.turn_rewards,
            "rl.rollout.status": self.status,
        }


class ProgramError(Exception):
    """Of the program: ends its rollout."""


# -- programs ------------------------------------------------------------------------------------------------------


async def one_call(client: Client) -> None:
    await client.ask()


async def three_turns(client: Client) -> None:
    for number in range(3):
        await client.ask()
        otel_rl.reward("r", number + 1.0, turn="last")


def streams(most: int | None = None, **how: bool) -> Callable[[Client], Awaitable[None]]:
    """Three streams, of which so many chunks are read, each with a reward."""

    async def program(client: Client) -> None:
        for number in range(3):
            await client.stream(most, **how)
            otel_rl.reward("r", number + 1.0, turn="last")

    return program


async def streams_without_rewards(client: Client) -> None:
    for _ in range(3):
        await client.stream(2)


async def stream_then_call(client: Client) -> None:
    await client.stream(2, holds=True)
    await client.ask()
    otel_rl.reward("r", 2.0, turn="last")


async def calls_at_once(client: Client) -> None:
    await client.beside(client.ask, 4)


async def streams_at_once(client: Client) -> None:
    await client.beside(client.stream, 4)


async def raw_answers(client: Client) -> None:
    for number in range(2):
        await client.raw()
        otel_rl.reward("r", number + 1.0, turn="last")


async def refused_once(client: Client) -> None:
    await client.ask("refusing_once")


async def asked_again(client: Client) -> None:
    with suppress(Exception):
        await client.ask("refusing_once")
    await client.ask("refusing_once")
    otel_rl.reward("r", 1.0, turn="last")


async def refused(client: Client) -> None:
    await client.ask()
    with suppress(Exception):
        await client.ask("refusing")


async def timed_out(client: Client) -> None:
    await client.ask()
    with suppress(Exception):
        await client.ask("slow", SHORT)


async def cancelled(client: Client) -> None:
    await client.ask()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(client.ask("slow"), SHORT)


async def raises_after_a_turn(client: Client) -> None:
    await client.ask()
    raise ProgramError


async def raises_after_a_stream(client: Client) -> None:
    await client.stream(2, holds=True)
    raise ProgramError


# -- the table -----------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """A line of the table.

    Attributes:
        name: what the program does.
        program: runs in a rollout of its own, with a client of its own.
        truth: what its row has to say.
        clients: those that can do it.
        quick: those with which `make test` runs it; the others belong to test-slow.
    """

    name: str
    program: Callable[[Client], Awaitable[None]]
    truth: Truth
    clients: Callable[[type[Client]], bool] = lambda _client: True
    quick: tuple[str, ...] = ()


def _retries(client: type[Client]) -> bool:
    return client.retries


def _retries_not(client: type[Client]) -> bool:
    return not client.retries


def _is_async(client: type[Client]) -> bool:
    return client.is_async


def _has_raw(client: type[Client]) -> bool:
    return client.has_raw


REWARDS = [1.0, 2.0, 3.0]
LEFT = Truth(3, 3, turn_rewards=REWARDS)
SHAPES = [
    Shape("one call", one_call, Truth(1, 1, read=1)),
    Shape("three turns", three_turns, Truth(3, 3, read=3, turn_rewards=REWARDS), quick=("openai", "requests")),
    Shape("streams read whole", streams(), Truth(3, 3, read=3, turn_rewards=REWARDS), quick=("openai async",)),
    Shape("streams left by break", streams(2), LEFT, quick=("openai", "openai async", "requests", "langchain async")),
    Shape("streams left by break, no rewards", streams_without_rewards, Truth(3, 3), quick=("openai", "urllib3")),
    Shape("streams never read", streams(0), LEFT, lambda client: "LangChain" not in client.__name__),
    Shape("streams closed early", streams(2, closes=True), LEFT, quick=("httpx", "aiohttp")),
    Shape("streams held", streams(2, holds=True), LEFT, quick=("openai",)),
    Shape("a stream held, then a call", stream_then_call, Truth(2, 2, read=1, turn_rewards=[None, 2.0])),
    Shape("calls at once", calls_at_once, Truth(4, 4, read=4), quick=("openai async",)),
    Shape("streams at once", streams_at_once, Truth(4, 4, read=4)),
    Shape("raw answers", raw_answers, Truth(2, 2, read=2, turn_rewards=REWARDS[:2]), _has_raw, quick=("openai",)),
    Shape("refused once", refused_once, Truth(1, 1, read=1, requests=2), _retries, quick=("openai",)),
    Shape("asked again", asked_again, Truth(1, 2, 1, read=1, turn_rewards=[1.0]), _retries_not, quick=("requests",)),
    Shape("refused, with retries", refused, Truth(1, 2, 1, read=1, requests=4), _retries),
    Shape("refused", refused, Truth(1, 2, 1, read=1), _retries_not),
    Shape("timed out", timed_out, Truth(1, 2, 1, read=1)),
    Shape("cancelled", cancelled, Truth(1, 2, 1, read=1), _is_async),
    Shape("the program raises", raises_after_a_turn, Truth(1, 1, read=1, status="failed")),
    Shape("the program raises in a stream", raises_after_a_stream, Truth(1, 1, status="failed"), quick=("httpx",)),
]
