"""Calls of Anthropic's client, which has spans of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("anthropic", "httpx", "httpx2")
_FORMS = ("", ", streamed", ", by a stream manager", ", asynchronous", ", raw")
EXPECTED = {f"messages{form}": Expected() for form in _FORMS}
_MESSAGE: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    import anthropic

    given: dict[str, Any] = {"api_key": "none", "base_url": servers.providers, "max_retries": 0}
    client = anthropic.Anthropic(**given)

    async def asynchronous() -> None:
        async with anthropic.AsyncAnthropic(**given) as other:
            await other.messages.create(**_MESSAGE)

    def managed() -> None:
        with client.messages.stream(**_MESSAGE) as stream:
            stream.get_final_message()

    return {
        "messages": lambda: client.messages.create(**_MESSAGE),
        "messages, streamed": lambda: list(client.messages.create(**_MESSAGE, stream=True)),
        "messages, by a stream manager": managed,
        "messages, asynchronous": lambda: asyncio.run(asynchronous()),
        "messages, raw": lambda: client.messages.with_raw_response.create(**_MESSAGE).parse(),
    }
