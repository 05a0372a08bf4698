"""One rollout of an agent in a step of training: a model call, a tool and a reward."""

from __future__ import annotations

import sys

import openai
from support.fake_openai import FakeOpenAI

import otel_rl


def main(rollout_id: str) -> None:
    """Make the rollout."""
    with FakeOpenAI() as server, otel_rl.step(1):
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        with otel_rl.phase("sample"), otel_rl.rollout(rollout_id):
            question = [{"role": "user", "content": "What is 1 + 2?"}]
            with otel_rl.span("attempt"):
                client.chat.completions.create(model="tiny", messages=question)
                with otel_rl.tool("add", arguments={"first": 1, "second": 2}):
                    pass
            with otel_rl.reward_function("exact_match") as reward:
                reward.score(1.0)
        with otel_rl.phase("train"):
            pass


if __name__ == "__main__":
    main(sys.argv[1])
