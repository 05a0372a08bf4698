"""Calls of Google's client for Gemini."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("google_genai", "httpx", "httpx2", "aiohttp")
_FORMS = ("", ", streamed", ", asynchronous", ", asynchronous, streamed")
EXPECTED = {f"content{form}": Expected() for form in _FORMS}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    from google import genai

    client = genai.Client(api_key="none", http_options={"base_url": servers.providers})
    given: dict[str, Any] = {"model": "tiny", "contents": "hi"}

    async def streamed() -> None:
        async for _ in await client.aio.models.generate_content_stream(**given):
            pass

    return {
        "content": lambda: client.models.generate_content(**given),
        "content, streamed": lambda: list(client.models.generate_content_stream(**given)),
        "content, asynchronous": lambda: asyncio.run(client.aio.models.generate_content(**given)),
        "content, asynchronous, streamed": lambda: asyncio.run(streamed()),
    }
