"""Stands in for vLLM's server, with SkyRL's requests: `python engine.py PORT TOKENIZER`.

It answers two of five sums right, and the others at random.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from transformers import AutoTokenizer

application = FastAPI()
words = AutoTokenizer.from_pretrained(sys.argv[2])
chance = random.Random(0)  # noqa: S311 - no secret
going = asyncio.Event()
going.set()
RIGHT = 0.4


@application.post("/inference/v1/generate")
async def generate(request: Request) -> dict[str, Any]:
    """Answer with tokens, when nobody brings weights."""
    body = await request.json()
    await going.wait()
    await asyncio.sleep(0.05 + chance.random() * 0.2)
    asked = re.findall(r"(\d+) \+ (\d+)", words.decode(body["token_ids"]))
    answer = sum(map(int, asked[-1])) if asked and chance.random() < RIGHT else chance.randint(20, 90)
    ids = [*words.encode(f"#### {answer}", add_special_tokens=False), words.eos_token_id]
    logprobs = {"content": [{"logprob": -1.0 - chance.random()} for _ in ids]}
    choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": logprobs}
    usage = {"prompt_tokens": len(body["token_ids"]), "completion_tokens": len(ids)}
    return {"request_id": "r", "choices": [choice], "usage": usage}


@application.post("/detokenize")
async def detokenize(request: Request) -> dict[str, str]:
    """Return the text of tokens."""
    return {"prompt": words.decode((await request.json())["tokens"])}


@application.post("/pause")
async def pause() -> dict[str, str]:
    """Hold further requests."""
    going.clear()
    return {"status": "paused"}


@application.post("/resume")
async def resume() -> dict[str, str]:
    """Go on."""
    going.set()
    return {"status": "ok"}


@application.get("/get_world_size")
async def world_size() -> dict[str, int]:
    """Return the number of workers."""
    return {"world_size": 1}


@application.api_route("/{rest:path}", methods=["GET", "POST"])
async def other(rest: str) -> dict[str, str]:
    """Agree to anything else."""
    return {"status": rest}


uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
