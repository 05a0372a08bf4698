"""An OpenAI-compatible server of a pretended model that works in turns: `python model_server.py PORT NUMBER`.

It asks for a tool or two and then answers with a number. Its skill grows with the version of its weights, which
`POST /weights {"version": N}` brings.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

from aiohttp import web
from bugs import has, now

PORT = int(sys.argv[1])
#: Seconds for a token that is read, and for one that is written.
READ, WRITTEN = 4e-5, 9e-4
#: Whether this is the second server of the two.
IS_SECOND = sys.argv[2:] == ["1"]
served = {"calls": 0, "down_until": 0.0}


def latency(read: int, written: int) -> float:
    seconds = (0.004 + READ * read + WRITTEN * written) * random.lognormvariate(0.0, 0.2)
    if has("second_slow", since=20) and IS_SECOND:
        seconds *= 3.0
    if has("compaction", since=16) and not IS_SECOND and any(now["step"] in range(at, at + 5) for at in (16, 31, 46)):
        seconds *= 3.5
    return seconds


def arguments_of(name: str, question: str) -> str:
    text = json.dumps({"key": question} if name == "lookup" else {"command": f"expr {question}"})
    if has("cut_arguments", since=18) and name == "bash" and random.random() < 0.5:
        return text[:-3]
    return text


def next_message(messages: list[dict]) -> tuple[dict, int, str]:
    """Return the message, its tokens, and why it ended."""
    question = messages[1]["content"]
    results = sum(one["role"] == "tool" for one in messages)
    wanted = random.choice((1, 1, 2, 3)) if results < 3 else 0
    if results < wanted:
        name = "lookup" if results == 0 else "bash"
        call = {"name": name, "arguments": arguments_of(name, question)}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"call-{random.getrandbits(40):x}", "type": "function", "function": call}]
        return message, random.randint(12, 24), "tool_calls"
    left, right = question.split(" + ")
    skill = min(0.45 + 0.006 * now["step"], 0.8)
    right_answer = int(left) + int(right)
    answer = right_answer if random.random() < skill else right_answer + random.choice((-1, 1, 10))
    tokens = min(int(random.lognormvariate(3.3, 0.45)), 96)
    return {"role": "assistant", "content": "so " * tokens + f"the answer is {answer}"}, tokens + 5, "stop"


async def complete(request: web.Request) -> web.Response:
    served["calls"] += 1
    if has("restarts", since=15) and IS_SECOND and served["calls"] % 20 == 0:
        served["down_until"] = time.monotonic() + 0.4
    if time.monotonic() < served["down_until"]:
        request.transport.abort()
        return web.Response(status=503)
    body = await request.json()
    read = sum(len(str(one.get("content"))) for one in body["messages"]) // 4
    message, written, reason = next_message(body["messages"])
    await asyncio.sleep(latency(read, written))
    return web.json_response(
        {
            "id": f"chat-{random.getrandbits(40):x}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }
    )


async def take_weights(request: web.Request) -> web.Response:
    now["step"] = (await request.json())["version"]
    await asyncio.sleep(0.01 * random.lognormvariate(0.0, 0.2))
    return web.json_response({"version": now["step"]})


def main() -> None:
    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    application.router.add_post("/weights", take_weights)
    web.run_app(application, host="127.0.0.1", port=PORT, print=None)


if __name__ == "__main__":
    main()
