"""An agent that asks a model server and uses tools, as a plan says: `agent_program.py PLAN.json`.

The server is one of this machine: it streams its answers. PLAN: ``steps``, ``first_chunk`` in seconds; and ``change``:
``step``, and one of ``slow_tool`` and ``failing_tool`` (with ``seconds``, or the ``share`` of its calls), or
``first_chunk`` and ``refused``, the share of calls that the server refuses once.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import openai
from langchain_core.tools import tool
from support.streaming_model_server import streaming_model_server

import otel_rl

plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
change: dict[str, Any] = plan.get("change", {})
ROLLOUTS = 3
now = {"step": 1}
chance = random.Random(0)  # noqa: S311 - no secret
asked, used = itertools.count(1), itertools.count(1)


def is_changed(name: str, value: Any = None) -> bool:
    return name in change and now["step"] >= change["step"] and value in (None, change[name])


def is_one_of(count: int, share: float) -> bool:
    """True for this share of all counts, evenly."""
    return int(count * share) > int((count - 1) * share)


# -- the model server --------------------------------------------------------------------------------------------------


def first_chunk() -> float:
    return float(change["first_chunk"] if is_changed("first_chunk") else plan["first_chunk"])


def refusal() -> int | None:
    return 503 if is_changed("refused") and is_one_of(next(asked), change["refused"]) else None


# -- tools -------------------------------------------------------------------------------------------------------------


def work(name: str, seconds: float) -> None:
    time.sleep(change["seconds"] if is_changed("slow_tool", name) else seconds * chance.uniform(0.8, 1.2))
    if is_changed("failing_tool", name) and is_one_of(next(used), change["share"]):
        raise TimeoutError(f"{name} did not answer")


@tool
def search(words: str) -> str:
    """Look words up."""
    work("search", 0.012)
    return f"{words}: found"


@tool
def calculator(term: str) -> str:
    """Compute a term."""
    work("calculator", 0.008)
    return term


@tool
def run_code(code: str) -> str:
    """Run a program."""
    work("run_code", 0.01)
    return code


def use(one: Any, given: str) -> bool:
    try:
        one.invoke(given)
    except TimeoutError:
        return False
    return True


# -- the agent ---------------------------------------------------------------------------------------------------------


def rollout(client: openai.OpenAI) -> float:
    question = [{"role": "user", "content": "What is 1 + 2?"}]
    answer = client.chat.completions.create(model="tiny", messages=question, stream=True)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    return float(all([use(search, said), use(calculator, said), use(run_code, said)]))


def main() -> None:
    with streaming_model_server(first_chunk, refusal) as url:
        client = openai.OpenAI(base_url=url, api_key="none")
        for step in range(1, plan["steps"] + 1):
            now["step"] = step
            with otel_rl.step(step):
                with otel_rl.phase("sample"):
                    for number in range(ROLLOUTS):
                        with otel_rl.rollout(sample_id=f"{step}-{number}"):
                            # Samples that all got the same would teach nothing.
                            otel_rl.reward("solved", rollout(client) * (1.5 - number / 2))
                with otel_rl.phase("train"):
                    time.sleep(0.03)


main()
