"""Every way in which programs read a streamed answer, with each client."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import TYPE_CHECKING, Any

from unit.inference_http.http_posts import INSTALLED

if TYPE_CHECKING:
    from collections.abc import Callable

#: Since urllib3 2.0.
_HAS_READ1 = hasattr(importlib.import_module("urllib3").HTTPResponse, "read1") if "urllib3" in INSTALLED else False
_WAYS = {
    "aiohttp": ("lines", "readline", "iter_any", "iter_chunked", "iter_chunks", "read_some", "whole"),
    "httpx.sync": ("iter_lines", "iter_text", "iter_bytes", "iter_raw", "whole"),
    "httpx.async": ("aiter_lines", "aiter_text", "aiter_bytes", "aiter_raw", "whole"),
    "urllib3": ("stream", "read", "lines", "read1", "whole"),
    "requests": ("iter_lines", "iter_content", "raw.stream", "raw.read", "raw", "whole"),
}
_WAYS |= {f"httpx2.{form}": _WAYS[f"httpx.{form}"] for form in ("sync", "async")}
#: Client, and how it reads.
WAYS = [(client, way) for client in INSTALLED for way in _WAYS.get(client, ()) if way != "read1" or _HAS_READ1]
#: Of each client the way that most programs take.
COMMON = [(client, _WAYS[client][0]) for client in INSTALLED if client in _WAYS]


def read_stream(client: str, way: str, url: str, body: Any, take: Callable[[Any], bool]) -> None:
    """Post ``body`` and give ``take`` each piece of the answer, until there is none or it returns False."""
    library, _, form = client.partition(".")
    if library == "requests":
        _requests(way, url, body, take)
    elif library == "urllib3":
        _urllib3(way, url, body, take)
    elif library == "aiohttp":
        asyncio.run(_aiohttp(way, url, body, take))
    elif form == "async":
        asyncio.run(_httpx_async(importlib.import_module(library), way, url, body, take))
    else:
        module = importlib.import_module(library)
        with module.Client() as made, made.stream("POST", url, json=body) as response:
            pieces = [response.read()] if way == "whole" else getattr(response, way)()
            for piece in pieces:
                if not take(piece):
                    break


def _urllib3(way: str, url: str, body: Any, take: Callable[[Any], bool]) -> None:
    import urllib3

    with urllib3.PoolManager(retries=False) as manager:
        with manager.request("POST", url, body=json.dumps(body).encode(), preload_content=False) as response:
            if way == "whole":
                pieces: Any = [response.read()]
            elif way in ("read", "read1"):
                pieces = iter(lambda: getattr(response, way)(16), b"")
            else:
                pieces = response if way == "lines" else response.stream()
            for piece in pieces:
                if not take(piece):
                    break


def _requests(way: str, url: str, body: Any, take: Callable[[Any], bool]) -> None:
    import requests

    with requests.post(url, json=body, stream=True, timeout=60) as response:
        if way == "whole":
            pieces: Any = [response.content]
        elif way == "iter_content":
            pieces = response.iter_content(16)
        elif way == "raw.read":
            pieces = iter(lambda: response.raw.read(16), b"")
        elif way == "raw.stream":
            pieces = response.raw.stream(64)
        else:
            pieces = response.raw if way == "raw" else response.iter_lines()
        for piece in pieces:
            if not take(piece):
                break


async def _httpx_async(module: Any, way: str, url: str, body: Any, take: Callable[[Any], bool]) -> None:
    async with module.AsyncClient() as made, made.stream("POST", url, json=body) as response:
        if way == "whole":
            take(await response.aread())
            return
        async for piece in getattr(response, way)():
            if not take(piece):
                break


async def _aiohttp(way: str, url: str, body: Any, take: Callable[[Any], bool]) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        content = response.content
        if way == "whole":
            take(await response.read())
        elif way in ("readline", "read_some"):
            while piece := await (content.readline() if way == "readline" else content.read(16)):
                if not take(piece):
                    break
        else:
            pieces = content if way == "lines" else getattr(content, way)(*([16] if way == "iter_chunked" else []))
            async for piece in pieces:
                if not take(piece[0] if way == "iter_chunks" else piece):
                    break
