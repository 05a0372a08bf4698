"""Chat calls of several shapes through the `openai` client, over a transport that answers at once."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    AsyncCalls = Callable[[int], Coroutine[Any, Any, None]]

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
#: A turn of an agent in a rollout: history, tools, sampled tokens with their log-probabilities.
TURN = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You solve tasks with tools. " * 20},
        *(
            message
            for turn in range(3)
            for message in (
                {"role": "user", "content": "What is the result of step " + str(turn) + "? " * 100},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": f"call_{turn}",
                            "type": "function",
                            "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": f"call_{turn}", "content": "3"},
            )
        ),
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "One of the tools",
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            },
        }
        for name in ("add", "multiply", "search")
    ],
    "max_tokens": 256,
    "temperature": 1.0,
    "logprobs": True,
}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": "vllm-0.32.0",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}
TOKEN = {"token": "tok", "logprob": -0.1, "bytes": [1, 2, 3], "top_logprobs": []}
TURN_ANSWER = {
    **ANSWER,
    "choices": [{**ANSWER["choices"][0], "logprobs": {"content": [TOKEN] * 128, "refusal": None}}],
}
#: Chunks of a short and of a long stream: the difference of two such calls is the cost of the chunks between.
FEW, MANY = 22, 278
_CHUNKS_ASKED = re.compile(rb'"max_tokens": ?(\d+)')


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    if finish_reason:
        body["usage"] = ANSWER["usage"]
    return f"data: {json.dumps(body)}\n\n"


@functools.cache
def _stream(chunks: int) -> bytes:
    """Return a stream of `chunks` chunks with text, and one that ends it."""
    text = "".join(_chunk({"content": f"w{n} "}) for n in range(chunks))
    return f"{text}{_chunk({}, 'stop')}data: [DONE]\n\n".encode()


def _clients() -> tuple[Any, Any]:
    import openai

    major = int(openai.__version__.split(".")[0])
    http = __import__("httpx2" if major >= 3 else "httpx")

    plain, turn = json.dumps(ANSWER).encode(), json.dumps(TURN_ANSWER).encode()
    json_type = {"content-type": "application/json"}

    def answer(request: Any) -> Any:
        if b'"stream":true' in request.content.replace(b" ", b""):
            chunks = int(_CHUNKS_ASKED.search(request.content).group(1))
            return http.Response(200, headers={"content-type": "text/event-stream"}, content=_stream(chunks))
        return http.Response(200, content=turn if b'"tools"' in request.content else plain, headers=json_type)

    async def answer_async(request: Any) -> Any:
        return answer(request)

    options = {"api_key": "none", "base_url": "http://127.0.0.1:9/v1"}
    return (
        openai.OpenAI(**options, http_client=http.Client(transport=http.MockTransport(answer))),
        openai.AsyncOpenAI(**options, http_client=http.AsyncClient(transport=http.MockTransport(answer_async))),
    )


class Workload:
    """Calls by shape: `run(shape, number)` makes `number` of them."""

    def __init__(self) -> None:
        self._client, self.async_client = _clients()
        self._loop = asyncio.new_event_loop()
        #: Shape in a loop of its own -> its calls.
        self._asynchronous: dict[Callable[[int], None], AsyncCalls] = {}
        self.shapes: dict[str, Callable[[int], None]] = {
            "chat": self._chats(CHAT),
            "agent_turn": self._chats(TURN),
            "async_chat": self._in_loop(self._async_chats),
            "stream": self._streams(FEW),
            "long_stream": self._streams(MANY),
            "async_stream": self._in_loop(self._async_streams(FEW)),
            "async_long_stream": self._in_loop(self._async_streams(MANY)),
        }

    def _chats(self, request: dict[str, Any]) -> Callable[[int], None]:
        def run(number: int) -> None:
            for _ in range(number):
                self._client.chat.completions.create(**request)

        return run

    async def _async_chats(self, number: int) -> None:
        for _ in range(number):
            await self.async_client.chat.completions.create(**CHAT)

    def _in_loop(self, calls: AsyncCalls) -> Callable[[int], None]:
        def run(number: int) -> None:
            self._run(calls(number))

        self._asynchronous[run] = calls
        return run

    def _run(self, calls: Coroutine[Any, Any, None]) -> None:
        self._loop.run_until_complete(calls)
        # The client leaves generators to the garbage collector, and the loop closes them in tasks of their own.
        while tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks))

    def _streams(self, chunks: int) -> Callable[[int], None]:
        request = {**CHAT, "max_tokens": chunks}

        def run(number: int) -> None:
            for _ in range(number):
                for _ in self._client.chat.completions.create(**request, stream=True):
                    pass

        return run

    def _async_streams(self, chunks: int) -> AsyncCalls:
        request = {**CHAT, "max_tokens": chunks}

        async def run(number: int) -> None:
            for _ in range(number):
                async for _ in await self.async_client.chat.completions.create(**request, stream=True):
                    pass

        return run

    def seconds(self, shape: str, number: int, settle: Callable[[], object]) -> float:
        """CPU seconds of the process per call, warm; `settle` waits for what the calls have left to other threads.

        An event loop runs before and after what is measured: a program starts one for long, and not for a few calls.
        """
        found: list[float] = []

        def add(start: float) -> None:
            settle()
            found.append((time.process_time() - start) / number)

        async def measure(calls: AsyncCalls) -> None:
            await calls(number // 4)
            settle()
            start = time.process_time()
            await calls(number)
            add(start)

        run = self.shapes[shape]
        if run in self._asynchronous:
            self._run(measure(self._asynchronous[run]))
        else:
            run(number // 4)
            settle()
            start = time.process_time()
            run(number)
            add(start)
        return found[0]
