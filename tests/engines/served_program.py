"""Rollouts at a server, with the OpenAI client one after another and at once, and with clients for HTTP."""

import asyncio
import json
import sys

import aiohttp
import httpx
import openai
import requests

import otel_rl

QUESTION = [{"role": "user", "content": "What is 1 + 2?"}]
REQUEST = {
    "model": "tiny",
    "messages": QUESTION,
    "max_tokens": 4,
    "temperature": 0,
    "logprobs": True,
    "top_logprobs": 2,
}


def one(client, name):
    with otel_rl.rollout(name):
        return client.chat.completions.create(**REQUEST).choices[0].message.content


async def at_once(client, name):
    with otel_rl.rollout(name):
        answer = await client.chat.completions.create(**REQUEST)
        return answer.choices[0].message.content


async def several(url):
    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    return await asyncio.gather(*(at_once(client, f"at-once-{number}") for number in range(6)))


def over_http(client, url):
    with otel_rl.rollout(f"over-{client.__name__}"):
        answer = client.post(f"{url}/chat/completions", json=REQUEST, timeout=60).json()
        return answer["choices"][0]["message"]["content"]


def streamed(name, client, url):
    """The answer of a stream, read line by line."""
    with otel_rl.rollout(f"stream-{name}"):
        body = {**REQUEST, "stream": True, "stream_options": {"include_usage": True}}
        if client is httpx:
            with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=60) as response:
                return said(response.iter_lines())
        response = requests.post(f"{url}/chat/completions", json=body, timeout=60, stream=True)
        return said(line.decode() for line in response.iter_lines())


async def streamed_over_aiohttp(url):
    with otel_rl.rollout("stream-aiohttp"):
        body = {**REQUEST, "stream": True, "stream_options": {"include_usage": True}}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/chat/completions", json=body) as response:
                return said([line.decode() async for line in response.content])


def said(lines):
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


async def over_aiohttp(url):
    with otel_rl.rollout("over-aiohttp"):
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/chat/completions", json=REQUEST) as response:
                return (await response.json())["choices"][0]["message"]["content"]


def main(url):
    client = openai.OpenAI(base_url=url, api_key="none")
    with otel_rl.step(iteration=1):
        answers = [one(client, f"one-{number}") for number in range(2)]
        answers += [over_http(library, url) for library in (httpx, requests)]
    with otel_rl.step(iteration=2):
        answers += [streamed(library.__name__, library, url) for library in (httpx, requests)]
        answers.append(asyncio.run(streamed_over_aiohttp(url)))
        with otel_rl.phase("sync"):
            operate(url.removesuffix("/v1"))
    print(json.dumps([*answers, asyncio.run(over_aiohttp(url)), *asyncio.run(several(url))]))


def operate(server):
    """What a trainer does to its server around new weights."""
    httpx.post(f"{server}/pause", timeout=60).raise_for_status()
    requests.post(f"{server}/sleep?level=1", timeout=60).raise_for_status()
    httpx.post(f"{server}/wake_up", timeout=60).raise_for_status()
    httpx.post(f"{server}/update_weight_version", json={"new_version": "v1"}, timeout=60).raise_for_status()
    requests.post(f"{server}/reset_prefix_cache", timeout=60).raise_for_status()
    httpx.post(f"{server}/resume", timeout=60).raise_for_status()


if __name__ == "__main__":
    main(sys.argv[1])
