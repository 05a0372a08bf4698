"""Programs of `engine_spans.py`: many rollouts at once, each request with an id that names rollout and turn.

    python engine_span_programs.py {served URL | batches MODEL | asynchronous MODEL ENDPOINT} ROLLOUTS

A rollout asks twice, and waits in between until all of its kind have asked once. So they are open at one time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import otel_rl

TURNS, TOKENS, THREADS = 2, 4, 32
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": 128, "served_model_name": "tiny", "seed": 0}


def request_id(rollout: int, turn: int) -> str:
    """Return the id that only this request has."""
    return f"{rollout}-{turn}"


class Barrier:
    """Waits until all rollouts are here."""

    def __init__(self, number: int) -> None:
        self._missing = number
        self._all_here = asyncio.Event()

    async def wait(self) -> None:
        """Return when the last one has come."""
        self._missing -= 1
        if not self._missing:
            self._all_here.set()
        await self._all_here.wait()


async def _all_at_once(number: int, ask: Any, first: int = 0) -> None:
    """Run ``number`` rollouts in tasks of one loop; ``ask`` takes rollout and turn."""
    barrier = Barrier(number)

    async def rollout(sample: int) -> None:
        with otel_rl.rollout(str(sample)):
            await ask(sample, 0)
            await barrier.wait()
            await ask(sample, 1)

    await asyncio.gather(*(rollout(first + sample) for sample in range(number)))


# -- clients of a server -----------------------------------------------------------------------------------------------


def _request(rollout: int, turn: int) -> dict[str, Any]:
    question = [{"role": "user", "content": f"What is {rollout} + {turn}?"}]
    return {"model": "tiny", "messages": question, "max_tokens": TOKENS, "temperature": 0}


def _headers(rollout: int, turn: int) -> dict[str, str]:
    return {"X-Request-Id": request_id(rollout, turn)}


async def _over_openai_and_aiohttp(url: str, number: int) -> None:
    """Half of the rollouts with the asynchronous client of openai, the others with aiohttp, in one loop."""
    import aiohttp
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", timeout=300, max_retries=0)
    async with aiohttp.ClientSession() as session:

        async def ask(rollout: int, turn: int) -> None:
            request, headers = _request(rollout, turn), _headers(rollout, turn)
            if rollout % 2:
                await client.chat.completions.create(**request, extra_headers=headers)
                return
            async with session.post(f"{url}/chat/completions", json=request, headers=headers) as response:
                await response.json()

        await _all_at_once(number, ask)


def _over_threads(url: str, first: int, number: int) -> None:
    """Rollouts in threads, which share a client."""
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", timeout=300, max_retries=0)

    def rollout(sample: int) -> None:
        with otel_rl.rollout(str(sample)):
            for turn in range(TURNS):
                client.chat.completions.create(**_request(sample, turn), extra_headers=_headers(sample, turn))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(rollout, range(first, first + number)))


def served(url: str, number: int) -> None:
    """Three quarters of the rollouts in tasks, the others in threads."""
    in_tasks = number * 3 // 4
    asyncio.run(_over_openai_and_aiohttp(url, in_tasks))
    _over_threads(url, in_tasks, number - in_tasks)


# -- engines in the process --------------------------------------------------------------------------------------------


def seed(rollout: int, turn: int) -> int:
    """Return a seed that names rollout and turn: a batch has no id, and its seed is on its span."""
    return rollout * TURNS + turn


def batches(model: str, number: int) -> None:
    """Call `LLM.generate` once per turn: of every other rollout in a thread."""
    from vllm import LLM, SamplingParams

    llm = LLM(model, max_num_seqs=8, **ENGINE)
    one_at_a_time = threading.Lock()

    def generate(rollout: int, turn: int) -> None:
        sampling = SamplingParams(max_tokens=TOKENS, seed=seed(rollout, turn))
        with one_at_a_time:
            llm.generate([{"prompt_token_ids": [3, 4, 5]}] * 2, sampling, use_tqdm=False)

    async def ask(rollout: int, turn: int) -> None:
        if rollout % 2:
            await asyncio.to_thread(generate, rollout, turn)
        else:
            generate(rollout, turn)
            await asyncio.sleep(0)

    asyncio.run(_all_at_once(number, ask))


async def asynchronous(model: str, endpoint: str, number: int) -> None:
    """Two requests of `AsyncLLM.generate` per rollout; vLLM's own tracer is on."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(model=model, max_num_seqs=64, otlp_traces_endpoint=endpoint, **ENGINE)
    )

    async def ask(rollout: int, turn: int) -> None:
        sampling = SamplingParams(max_tokens=TOKENS)
        outputs = engine.generate({"prompt_token_ids": [3, 4, 5]}, sampling, request_id=request_id(rollout, turn))
        async for _ in outputs:
            pass

    await _all_at_once(number, ask)
    engine.shutdown()


def main(kind: str, *given: str) -> None:
    """Run the rollouts of this kind."""
    number = int(given[-1])
    if kind == "served":
        served(given[0], number)
    elif kind == "batches":
        batches(given[0], number)
    else:
        asyncio.run(asynchronous(given[0], given[1], number))
    print(json.dumps([number * TURNS]))


if __name__ == "__main__":
    main(*sys.argv[1:])
