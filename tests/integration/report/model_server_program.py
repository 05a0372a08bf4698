"""Rollouts that ask a model server: `model_server_program.py FIRST_CHUNK [SLOW_STEP]`, the former in seconds.

From SLOW_STEP on, the first chunk of an answer takes twenty times as long, and every other call is refused once with
status 500, after which the client sends it again.
"""

from __future__ import annotations

import itertools
import sys
import time

import openai
from support.streaming_model_server import streaming_model_server

import otel_rl

STEPS, CALLS, FIRST_CHUNK = 30, 2, float(sys.argv[1])
slow_step = int(sys.argv[2]) if sys.argv[2:] else STEPS + 1
state = {"slow": False}
numbers = itertools.count()


def first_chunk() -> float:
    return FIRST_CHUNK * (20 if state["slow"] else 1)


def refusal() -> int | None:
    return 500 if state["slow"] and next(numbers) % 2 else None


with streaming_model_server(first_chunk, refusal) as url:
    client = openai.OpenAI(base_url=url, api_key="none")
    for step in range(1, STEPS + 1):
        state["slow"] = step >= slow_step
        with otel_rl.step(step), otel_rl.phase("sample"):
            for number in range(CALLS):
                with otel_rl.rollout(sample_id=f"{step}-{number}"):
                    time.sleep(0.005)
                    answer = client.chat.completions.create(
                        model="tiny", messages=[{"role": "user", "content": "?"}], stream=True
                    )
                    # Samples that all got the same would teach nothing.
                    otel_rl.reward("length", sum(1 for _ in answer) + 0.1 * number)
