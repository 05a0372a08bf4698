"""Rollouts with the OpenAI client at a server: some one after another, some at once; prints what was generated."""

import asyncio
import json
import sys

import openai

import otel_rl

QUESTION = [{"role": "user", "content": "What is 1 + 2?"}]
REQUEST = {"model": "tiny", "messages": QUESTION, "max_tokens": 4, "temperature": 0}


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


def main(url):
    client = openai.OpenAI(base_url=url, api_key="none")
    answers = [one(client, f"one-{number}") for number in range(2)]
    print(json.dumps(answers + asyncio.run(several(url))))


if __name__ == "__main__":
    main(sys.argv[1])
