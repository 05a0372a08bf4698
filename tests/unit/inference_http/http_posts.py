"""One way to post with each client, in the forms that programs use."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
from typing import Any

from otel_rl.inference.dropped_answers import record_abandoned

#: Client and, after a dot, how it is used.
ALL = ("aiohttp", "httpx.sync", "httpx.async", "httpx2.sync", "httpx2.async", "requests", "urllib3")
INSTALLED = tuple(name for name in ALL if importlib.util.find_spec(name.partition(".")[0]))


def post(client: str, url: str, read: str = "json", **given: Any) -> Any:
    """Post, read the answer as ``read`` says (``json``, ``text``, ``status`` for not at all) and return that."""
    library, _, form = client.partition(".")
    if library == "aiohttp":
        return asyncio.run(_aiohttp(url, read, given))
    if form == "async":
        return asyncio.run(_httpx_async(importlib.import_module(library), url, read, given))
    if library == "requests":
        import requests

        given = {"data" if key == "content" else key: value for key, value in given.items()}
        with requests.Session() as session:
            return _value(session.post(url, **given), read)
    if library == "urllib3":
        return _urllib3(url, read, given)
    with importlib.import_module(library).Client() as made:
        return _value(made.post(url, **given), read)


def _value(response: Any, read: str) -> Any:
    if read == "json":
        return response.json()
    return response.text if read == "text" else response.status_code


def _urllib3(url: str, read: str, given: dict[str, Any]) -> Any:
    import urllib3

    if "content" in given:
        given["body"] = given.pop("content")
    # Neither `json` came before 2.0.
    if given.get("json") is not None:
        given["body"] = json.dumps(given["json"]).encode()
    given.pop("json", None)
    with urllib3.PoolManager(retries=False) as manager:
        response = manager.request("POST", url, **given)
        if read == "json" and not hasattr(response, "json"):
            value = json.loads(response.data)
            del response
            record_abandoned()
            return value
        if read == "json":
            return response.json()
        return response.data.decode() if read == "text" else response.status


async def _httpx_async(module: Any, url: str, read: str, given: dict[str, Any]) -> Any:
    async with module.AsyncClient() as made:
        return _value(await made.post(url, **given), read)


async def _aiohttp(url: str, read: str, given: dict[str, Any]) -> Any:
    import aiohttp

    given = {"data" if key == "content" else key: value for key, value in given.items()}
    async with aiohttp.ClientSession() as session, session.post(url, **given) as response:
        if read == "json":
            return await response.json()
        return await response.text() if read == "text" else response.status
