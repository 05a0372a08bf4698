"""The shapes of rollouts, one a line of :data:`SHAPES`: a small program, and what its row has to say."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import own_rollouts as own
import process_programs as processes
import role_programs as roles
from model_clients import SHORT
from truths import Truth

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_clients import Client


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
    # A name of its own: the lowest score of a function is suspect after a failure.
    otel_rl.reward("asked again", 1.0, turn="last")


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


def _all(_client: type[Client]) -> bool:
    return True


class Shape(NamedTuple):
    """A line of the table.

    Attributes:
        name: what the program does.
        program: runs in a rollout of its own, with a client of its own.
        truth: what its row has to say.
        clients: those that can do it.
        quick: those with which `make test` runs it; the others belong to test-slow.
        opens_rollouts: the program opens its rollouts itself.
    """

    name: str
    program: Callable[[Client], Awaitable[None]]
    truth: Truth
    clients: Callable[[type[Client]], bool] = _all
    quick: tuple[str, ...] = ()
    opens_rollouts: bool = False


def _retries(client: type[Client]) -> bool:
    return client.retries


def _retries_not(client: type[Client]) -> bool:
    return not client.retries


def _is_async(client: type[Client]) -> bool:
    return client.is_async


def _has_raw(client: type[Client]) -> bool:
    return client.has_raw


def _sends_body(client: type[Client]) -> bool:
    return client.sends_body


def _in_processes(client: type[Client]) -> bool:
    """Two are enough: what a child knows does not depend on its client."""
    return client.__name__ in ("OpenAI", "Requests")


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
    Shape(
        "asked again",
        asked_again,
        Truth(1, 2, 1, read=1, turn_rewards=[1.0], scores={"asked again": 1.0}),
        _retries_not,
        quick=("requests",),
    ),
    Shape("refused, with retries", refused, Truth(1, 2, 1, read=1, requests=4), _retries),
    Shape("refused", refused, Truth(1, 2, 1, read=1), _retries_not),
    Shape("timed out", timed_out, Truth(1, 2, 1, read=1)),
    Shape("cancelled", cancelled, Truth(1, 2, 1, read=1), _is_async),
    Shape("the program raises", raises_after_a_turn, Truth(1, 1, read=1, status="failed")),
    Shape("the program raises in a stream", raises_after_a_stream, Truth(1, 1, status="failed"), quick=("httpx",)),
]

# -- judges, and models of tools
JUDGED = {"judge": roles.SCORE}
SHAPES += [
    Shape(
        "a judge in a reward function",
        roles.judge_in_reward_function,
        Truth(1, 1, read=1, judge=(1, 0, 1), scores=JUDGED),
        quick=("openai", "requests", "langchain async"),
    ),
    Shape("a judge by name", roles.judge_by_name, Truth(1, 1, read=1, judge=(1, 0, 1)), quick=("openai async",)),
    Shape(
        "a judge that fails",
        roles.judge_that_fails,
        Truth(1, 1, read=1, judge=(1, 1, 0), scores={"failing judge": roles.SCORE}),
        _retries_not,
        quick=("httpx",),
    ),
    Shape(
        "a judge after each turn",
        roles.judge_after_each_turn,
        Truth(3, 3, read=3, judge=(3, 0, 3), turn_rewards=REWARDS, scores={"r": 6.0, "judge": 3 * roles.SCORE}),
        quick=("openai", "aiohttp"),
    ),
    Shape(
        "streams left by break beside a judge",
        roles.streams_beside_a_judge,
        Truth(2, 2, judge=(2, 0, 2), turn_rewards=REWARDS[:2], scores={"r": 3.0, "judge": 2 * roles.SCORE}),
        quick=("openai", "openai async", "requests"),
    ),
    Shape(
        "a judge's stream left by break",
        roles.stream_of_a_judge,
        Truth(2, 2, read=2, judge=(2, 0, 0), turn_rewards=REWARDS[:2], scores={"r": 3.0, "judge": 2 * roles.SCORE}),
        quick=("openai", "httpx"),
    ),
    Shape(
        "judges at once",
        roles.judges_at_once,
        Truth(3, 3, read=3, judge=(3, 0, 3), scores={"judge": 3 * roles.SCORE}),
        quick=("openai", "openai async"),
    ),
    Shape(
        "a judge asks at once",
        roles.judge_asks_at_once,
        Truth(1, 1, read=1, judge=(3, 0, 3), scores=JUDGED),
        quick=("openai", "openai async"),
    ),
    Shape(
        "a model in a tool",
        roles.model_in_a_tool,
        Truth(2, 2, read=2, tools=1, tool_models=(2, 0, 2), turn_rewards=[None, 2.0]),
        quick=("openai", "langchain", "urllib3"),
    ),
    Shape(
        "a model in a judge's tool",
        roles.model_in_a_judges_tool,
        Truth(1, 1, read=1, judge=(1, 0, 1), tools=1, scores=JUDGED),
        quick=("openai",),
    ),
]

# -- child processes
FROM_CHILD = {"child": processes.SCORE}
# A process that is spawned imports its client anew: `make test` has one child and one judge of them, of a small one.
for _method, _common, _quick in (("fork", ("openai",), ("openai",)), ("spawn", ("requests",), ())):
    SHAPES += [
        Shape(
            f"a child by {_method}",
            processes.process(_method),
            Truth(2, 2, read=2, in_children=1, scores=FROM_CHILD),
            _in_processes,
            _common,
        ),
        Shape(
            f"a pool by {_method}",
            processes.pool(_method),
            Truth(4, 4, read=4, in_children=3),
            _in_processes,
            _quick,
        ),
        Shape(
            f"a judge in a pool by {_method}",
            processes.judge_in_pool(_method),
            Truth(1, 1, read=1, judge=(3, 0, 3), in_children=3, scores=JUDGED),
            _in_processes,
            _common,
        ),
        Shape(
            f"a tool's model in a child by {_method}",
            processes.tool_in_process(_method),
            Truth(1, 1, read=1, tools=1, tool_models=(1, 0, 1), in_children=1),
            _in_processes,
            _quick,
        ),
    ]
SHAPES += [
    Shape(
        "versions of a child",
        processes.versions_of_a_child,
        # Of its child nobody knows whether there was a newer version.
        Truth(1, 1, read=1, in_children=1, versions=(3, 3, None), of_engines=[3]),
        _in_processes,
        ("openai",),
    )
]

# -- later rewards, failures among other rollouts, versions: programs that open their rollouts themselves
LATER = Truth(1, 1, read=1, scores={"by handle": 1.0, "by id": 0.5})
SUSPECT, UNSUSPECT = Truth(0, 1, 1, outcome=-1.0, is_suspect=True), Truth(0, 1, 1, outcome=0.5)
SHAPES += [
    Shape(name, program, truth, clients, quick, opens_rollouts=True)
    for name, program, truth, clients, quick in (
        ("rewards later in the step", own.rewarded_in_the_step, LATER, _all, ("openai", "httpx")),
        ("rewards after the record", own.rewarded_after_the_record, LATER, _all, ("openai", "aiohttp")),
        ("the lowest reward", own.failed_among_others(-1.0), SUSPECT, _retries_not, ("requests",)),
        ("another reward", own.failed_among_others(0.5), UNSUSPECT, _retries_not, ("requests",)),
        ("the lowest, late", own.failed_among_others(-1.0, late=True), SUSPECT, _retries_not, ("requests",)),
        ("another, late", own.failed_among_others(0.5, late=True), UNSUSPECT, _retries_not, ("requests",)),
        (
            "two engines",
            own.two_engines,
            Truth(3, 3, read=3, versions=(3, 4, 1), of_engines=[4, 900]),
            _sends_body,
            ("openai", "httpx async"),
        ),
        (
            "an engine left behind",
            own.engine_left_behind,
            Truth(1, 1, read=1, requests=7, versions=(2, 2, 2), of_engines=[2]),
            _sends_body,
            ("openai", "requests"),
        ),
    )
]
