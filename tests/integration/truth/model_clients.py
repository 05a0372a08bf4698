"""Clients of models, each with the same few ways to ask: what the shapes of :mod:`rollout_shapes` are made of.

Each way is a coroutine function. Those of a synchronous client never wait, so :func:`run` needs no event loop for them.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

MESSAGES = [{"role": "user", "content": "hi"}]
#: Seconds that a call with a time limit waits for the model "slow", which does not answer.
SHORT = 0.2


def _read(chunks: Iterator[Any], most: int | None) -> None:
    if most != 0:
        for number, _ in enumerate(chunks, 1):
            if number == most:
                break


async def _read_async(chunks: AsyncIterator[Any], most: int | None) -> None:
    number = 0
    if most != 0:
        async for _ in chunks:
            number += 1
            if number == most:
                break


class Client:
    """What a shape uses: :meth:`ask`, :meth:`stream`, :meth:`raw` where there is such a way, :meth:`beside`."""

    is_async: ClassVar[bool] = False
    #: It sends again what a server has refused.
    retries: ClassVar[bool] = False
    #: It gives answers that are parsed later, or never.
    has_raw: ClassVar[bool] = True
    #: Its requests are :meth:`body`, with :attr:`more`.
    sends_body: ClassVar[bool] = True

    def __init__(self, base_url: str, case: str, *, collects: bool) -> None:
        self.url, self.case, self._collects = base_url, case, collects
        #: Streams that the program holds.
        self.held: list[Any] = []
        #: Of every request.
        self.more: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        """Make the client."""

    async def close(self) -> None:
        """Close it."""

    def body(self, model: str, **more: Any) -> dict[str, Any]:
        """The request; the server knows the case by its user."""
        return {"model": model, "messages": MESSAGES, "user": self.case, **self.more, **more}

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        """One call; raises where it fails."""
        raise NotImplementedError

    async def stream(self, most: int | None = None, *, closes: bool = False, holds: bool = False) -> None:
        """One stream, of which the program reads ``most`` chunks, and then closes, holds or drops it."""
        # The server sends two chunks of one that is to be left: more than the program asks for is read ahead.
        model = "tiny" if most is None else "stalling"
        body = self.body(model, stream=True, stream_options={"include_usage": True})
        await self.stream_of(body, most, closes=closes, holds=holds)
        if self._collects:
            gc.collect()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        raise NotImplementedError

    async def raw(self) -> None:
        """One call whose answer the program reads by other means than the client's."""
        raise NotImplementedError

    async def beside(self, asks: Callable[[], Awaitable[None]], times: int) -> None:
        """Several calls at once."""
        if self.is_async:
            await asyncio.gather(*(asks() for _ in range(times)))
            return
        with ThreadPoolExecutor(times) as pool:
            for done in [pool.submit(contextvars.copy_context().run, run_sync, asks()) for _ in range(times)]:
                done.result()


def run_sync(coroutine: Any) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a synchronous client has waited")


class OpenAI(Client):
    retries = True

    def open(self) -> None:
        self._client = import_module("openai").OpenAI(api_key="none", base_url=self.url, max_retries=2)

    async def close(self) -> None:
        self._client.close()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        client = self._client if timeout is None else self._client.with_options(timeout=timeout, max_retries=0)
        client.chat.completions.create(**self.body(model))

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        if closes:
            with self._client.chat.completions.create(**body) as stream:
                _read(stream, most)
        elif holds:
            self.held.append(self._client.chat.completions.create(**body))
            _read(self.held[-1], most)
        else:
            _read(self._client.chat.completions.create(**body), most)

    async def raw(self) -> None:
        assert json.loads(self._client.chat.completions.with_raw_response.create(**self.body("tiny")).text)


class AsyncOpenAI(Client):
    is_async = retries = True

    def open(self) -> None:
        self._client = import_module("openai").AsyncOpenAI(api_key="none", base_url=self.url, max_retries=2)

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        client = self._client if timeout is None else self._client.with_options(timeout=timeout, max_retries=0)
        await client.chat.completions.create(**self.body(model))

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        if closes:
            async with await self._client.chat.completions.create(**body) as stream:
                await _read_async(stream, most)
        elif holds:
            self.held.append(await self._client.chat.completions.create(**body))
            await _read_async(self.held[-1], most)
        else:
            await _read_async(await self._client.chat.completions.create(**body), most)

    async def raw(self) -> None:
        answer = await self._client.chat.completions.with_raw_response.create(**self.body("tiny"))
        assert json.loads(answer.text)


class LangChain(Client):
    retries, has_raw, sends_body = True, False, False

    def open(self) -> None:
        self._model = import_module("langchain_openai").ChatOpenAI(
            model="tiny", api_key="none", base_url=self.url, max_retries=2, stream_usage=True
        )

    def _bound(self, model: str, **more: Any) -> Any:
        return self._model.bind(model=model, user=self.case, **more)

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        if timeout is not None:
            chat = import_module("langchain_openai").ChatOpenAI
            self._model = chat(model=model, api_key="none", base_url=self.url, max_retries=0, timeout=timeout)
        self._bound(model).invoke("hi")

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        chunks = self._bound(body["model"]).stream("hi")
        if holds:
            self.held.append(chunks)
        _read(chunks, most)
        if closes:
            chunks.close()


class AsyncLangChain(LangChain):
    is_async = True

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        if timeout is not None:
            chat = import_module("langchain_openai").ChatOpenAI
            self._model = chat(model=model, api_key="none", base_url=self.url, max_retries=0, timeout=timeout)
        await self._bound(model).ainvoke("hi")

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        chunks = self._bound(body["model"]).astream("hi")
        if holds:
            self.held.append(chunks)
        await _read_async(chunks, most)
        if closes:
            await chunks.aclose()


class Requests(Client):
    def open(self) -> None:
        self._session = import_module("requests").Session()
        self._url = f"{self.url}/chat/completions"

    async def close(self) -> None:
        self._session.close()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        answer = self._session.post(self._url, json=self.body(model), timeout=timeout)
        answer.raise_for_status()
        assert answer.json()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        answer = self._session.post(self._url, json=body, stream=True)
        if holds:
            self.held.append(answer)
        _read(answer.iter_lines(chunk_size=1), most)
        if closes:
            answer.close()

    async def raw(self) -> None:
        assert json.loads(self._session.post(self._url, json=self.body("tiny")).content)


class Urllib3(Client):
    def open(self) -> None:
        library = import_module("urllib3")
        self._pool = library.PoolManager(retries=library.Retry(0, read=0))
        self._url = f"{self.url}/chat/completions"

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        answer = self._pool.request("POST", self._url, json=self.body(model), timeout=timeout)
        if answer.status != 200:
            raise RuntimeError(answer.status)
        assert answer.json()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        answer = self._pool.request("POST", self._url, json=body, preload_content=False)
        if holds:
            self.held.append(answer)
        _read(answer.stream(64), most)
        if closes:
            answer.close()

    async def raw(self) -> None:
        assert json.loads(self._pool.request("POST", self._url, json=self.body("tiny")).data)


class Httpx(Client):
    library = "httpx"

    def open(self) -> None:
        self._client = import_module(self.library).Client()
        self._url = f"{self.url}/chat/completions"

    async def close(self) -> None:
        self._client.close()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        answer = self._client.post(self._url, json=self.body(model), timeout=timeout)
        answer.raise_for_status()
        assert answer.json()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        if closes:
            with self._client.stream("POST", self._url, json=body) as answer:
                _read(answer.iter_lines(), most)
            return
        answer = self._client.send(self._client.build_request("POST", self._url, json=body), stream=True)
        if holds:
            self.held.append(answer)
        _read(answer.iter_lines(), most)

    async def raw(self) -> None:
        assert json.loads(self._client.post(self._url, json=self.body("tiny")).content)


class Httpx2(Httpx):
    library = "httpx2"


class AsyncHttpx(Client):
    is_async = True

    def open(self) -> None:
        self._client = import_module("httpx").AsyncClient()
        self._url = f"{self.url}/chat/completions"

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        answer = await self._client.post(self._url, json=self.body(model), timeout=timeout)
        answer.raise_for_status()
        assert answer.json()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        if closes:
            async with self._client.stream("POST", self._url, json=body) as answer:
                await _read_async(answer.aiter_lines(), most)
            return
        answer = await self._client.send(self._client.build_request("POST", self._url, json=body), stream=True)
        if holds:
            self.held.append(answer)
        await _read_async(answer.aiter_lines(), most)

    async def raw(self) -> None:
        assert json.loads((await self._client.post(self._url, json=self.body("tiny"))).content)


class Aiohttp(Client):
    is_async = True

    def open(self) -> None:
        self._session = import_module("aiohttp").ClientSession()
        self._url = f"{self.url}/chat/completions"

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, model: str = "tiny", timeout: float | None = None) -> None:
        limit = import_module("aiohttp").ClientTimeout(timeout)
        async with self._session.post(self._url, json=self.body(model), timeout=limit) as answer:
            answer.raise_for_status()
            assert await answer.json()

    async def stream_of(self, body: dict[str, Any], most: int | None, *, closes: bool, holds: bool) -> None:
        if closes:
            async with self._session.post(self._url, json=body) as answer:
                await _read_async(answer.content, most)
            return
        answer = await self._session.post(self._url, json=body)
        if holds:
            self.held.append(answer)
        await _read_async(answer.content, most)

    async def raw(self) -> None:
        async with self._session.post(self._url, json=self.body("tiny")) as answer:
            assert json.loads(await answer.read())


#: Name of a client -> its class; the package that it needs has the class's library.
CLIENTS: dict[str, tuple[str, type[Client]]] = {
    "openai": ("openai", OpenAI),
    "openai async": ("openai", AsyncOpenAI),
    "langchain": ("langchain_openai", LangChain),
    "langchain async": ("langchain_openai", AsyncLangChain),
    "requests": ("requests", Requests),
    "urllib3": ("urllib3", Urllib3),
    "httpx": ("httpx", Httpx),
    "httpx async": ("httpx", AsyncHttpx),
    "httpx2": ("httpx2", Httpx2),
    "aiohttp": ("aiohttp", Aiohttp),
}
