"""GRPO with a loop of its own: an agent with a calculator over MCP, two rewards, an engine that gets new weights.

    python examples/agentic_grpo.py [--steps 3] [--prompts 2] [--samples 4] [--engine vllm | transformers | served]

Each question is answered by several trajectories. One samples an answer, asks the tool, and samples again with the
tool's result. The trajectories of a question are compared by their rewards, and the policy is trained on both samples.
The engine is vLLM in this process where it is installed, otherwise `generate` of Transformers. `served` is a process of
its own, `transformers serve`, which is asked over HTTP with the OpenAI client. The tiny random model never asks for a
tool, so the agent calls it on its own; it learns to spell digits. Needs torch, transformers and mcp; `served` also
openai and transformers[serving].

The calls of `otel_rl` say where steps and trajectories begin and end. Without instrumentation they do nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import urllib.request
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from model_server import served
from tiny_model import build
from transformers import AutoModelForCausalLM, AutoTokenizer

import otel_rl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

MAX_TOKENS = 12
LEARNING_RATE = 3e-3
#: vLLM on the CPU needs heads of 32 elements.
HEADS = 2


class Engine(Protocol):
    """What samples; it has weights of its own."""

    def generate(self, prompt: list[int]) -> list[int]:
        """Sample the tokens that follow `prompt`."""

    def update(self, policy: PreTrainedModel) -> None:
        """Take the weights of the policy."""


class TransformersEngine:
    """`generate` on a copy of the model."""

    def __init__(self, folder: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def generate(self, prompt: list[int]) -> list[int]:
        found = self._model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=MAX_TOKENS,
            do_sample=True,
        )
        return found[0, len(prompt) :].tolist()

    def update(self, policy: PreTrainedModel) -> None:
        self._model.load_state_dict(policy.state_dict())


class VllmEngine:
    """vLLM in this process."""

    def __init__(self, folder: Path) -> None:
        # The engine core in this process too, so that it can be given the weights without a copy.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        from vllm import LLM, SamplingParams  # noqa: PLC0415 - takes seconds, and may not be installed

        self._llm = LLM(str(folder), dtype="float32", max_model_len=512, max_num_seqs=16, enforce_eager=True, seed=0)
        self._sampling = SamplingParams(max_tokens=MAX_TOKENS, temperature=1.0)

    def generate(self, prompt: list[int]) -> list[int]:
        (answer,) = self._llm.generate([{"prompt_token_ids": prompt}], self._sampling, use_tqdm=False)
        return list(answer.outputs[0].token_ids)

    def update(self, policy: PreTrainedModel) -> None:
        weights = ((name, tensor.detach()) for name, tensor in policy.state_dict().items())
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        # What was computed with the weights before must not be reused.
        self._llm.reset_prefix_cache()


class ServedEngine:
    """`transformers serve` at this address; it serves the folder, and takes new weights from there."""

    def __init__(self, address: str, folder: Path) -> None:
        from openai import OpenAI  # noqa: PLC0415 - the other engines do not need it

        self._client = OpenAI(base_url=f"{address}/v1", api_key="none")
        self._reset = f"{address}/reset"
        self._folder = folder
        self._tokenizer = AutoTokenizer.from_pretrained(folder)

    def generate(self, prompt: list[int]) -> list[int]:
        text = self._tokenizer.decode(prompt)
        answer = self._client.completions.create(
            model=self._folder.name, prompt=text, max_tokens=MAX_TOKENS, temperature=1.0
        ).choices[0]
        # The server answers with text: these are its tokens, which need not be those that were sampled.
        tokens = self._tokenizer.encode(answer.text)
        return tokens if answer.finish_reason == "length" and tokens else [*tokens, self._tokenizer.eos_token_id]

    def update(self, policy: PreTrainedModel) -> None:
        policy.save_pretrained(self._folder)
        # The server forgets its models, and loads this one again when it is asked next.
        urllib.request.urlopen(urllib.request.Request(self._reset, method="POST")).close()  # noqa: S310 - ours


class Sample(NamedTuple):
    """One answer of the policy."""

    prompt: list[int]
    answer: list[int]


@dataclass
class Trajectory:
    """What the agent did for one question."""

    #: What `otel_rl.rollout` gives: it takes what becomes of the trajectory.
    record: Any
    samples: list[Sample] = field(default_factory=list)
    reward: float = 0.0


class Question(NamedTuple):
    """Two numbers to add."""

    a: int
    b: int

    @property
    def name(self) -> str:
        return f"{self.a}+{self.b}"

    @property
    def text(self) -> str:
        return f"What is {self.a} + {self.b}? Say the number and nothing else."


class Agent:
    """Answers questions with the engine and the tool."""

    def __init__(self, engine: Engine, tools: ClientSession, tokenizer: PreTrainedTokenizerFast) -> None:
        self._engine = engine
        self._tools = tools
        self._tokenizer = tokenizer

    async def run(self, question: Question, group: str, version: int, *, keep: bool) -> Trajectory:
        with otel_rl.rollout(sample_id=question.name, group_id=group, policy_version=version, keep=keep) as record:
            trajectory = Trajectory(record)
            messages = [{"role": "user", "content": question.text}]
            self._turn(messages, trajectory)
            result = await self._tools.call_tool("add", {"a": question.a, "b": question.b})
            messages.append({"role": "tool", "content": result.content[0].text})
            said = self._turn(messages, trajectory)
            trajectory.reward = score(said, question)
            return trajectory

    def _turn(self, messages: list[dict[str, str]], trajectory: Trajectory) -> str:
        prompt = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        answer = self._engine.generate(prompt)
        trajectory.samples.append(Sample(prompt, answer))
        text = self._tokenizer.decode(answer, skip_special_tokens=True)
        messages.append({"role": "assistant", "content": text})
        return text


def score(said: str, question: Question) -> float:
    """Two rewards: the right number, and a share of digits."""
    right = 1.0 if str(question.a + question.b) in said else 0.0
    digits = sum(character.isdigit() for character in said) / max(len(said), 1)
    otel_rl.reward("right", right)
    otel_rl.reward("digits", digits)
    return right + digits


def advantages(group: list[Trajectory]) -> list[float]:
    """Reward of each trajectory against those of its group."""
    rewards = [trajectory.reward for trajectory in group]
    spread = statistics.stdev(rewards) if len(rewards) > 1 else 0.0
    return [(reward - statistics.fmean(rewards)) / (spread + 1e-4) for reward in rewards]


def train(policy: PreTrainedModel, optimizer: torch.optim.Optimizer, groups: list[list[Trajectory]]) -> None:
    """One update by the policy gradient."""
    losses = []
    for group in groups:
        for trajectory, advantage in zip(group, advantages(group), strict=True):
            trajectory.record.train(advantage, estimator="grpo")
            losses += [-advantage * log_probability(policy, sample) for sample in trajectory.samples]
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    otel_rl.metric("loss", loss.item())
    otel_rl.metric("grad_norm", norm.item())


def log_probability(policy: PreTrainedModel, sample: Sample) -> torch.Tensor:
    """Mean log-probability of the tokens of an answer."""
    tokens = torch.tensor([[*sample.prompt, *sample.answer]])
    logits = policy(tokens).logits[0, len(sample.prompt) - 1 : -1]
    chosen = logits.log_softmax(-1).gather(-1, torch.tensor(sample.answer)[:, None])
    return chosen.mean()


@asynccontextmanager
async def calculator() -> AsyncIterator[ClientSession]:
    """Return a session with the tool's server, a process of its own."""
    script = Path(__file__).with_name("calculator_server.py")
    server = StdioServerParameters(command=sys.executable, args=[str(script)], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


def start(engine: str, folder: Path, resources: ExitStack) -> Engine:
    """Return the engine of this name, with what it needs until the end."""
    if engine == "vllm":
        return VllmEngine(folder)
    if engine == "served":
        return ServedEngine(resources.enter_context(served(folder)), folder)
    return TransformersEngine(folder)


async def run(options: argparse.Namespace, folder: Path, engine: Engine) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE)
    dice = random.Random(0)  # noqa: S311 - a task, no secret
    async with calculator() as tools:
        agent = Agent(engine, tools, tokenizer)
        for number in range(1, options.steps + 1):
            with otel_rl.step(number):
                groups = []
                with otel_rl.phase("sample"):
                    for index in range(options.prompts):
                        question = Question(dice.randrange(10), dice.randrange(10))
                        name = f"step-{number}-prompt-{index}"
                        groups.append(
                            [
                                # A collector that samples keeps the first trajectory of each step.
                                await agent.run(question, name, number - 1, keep=index == sample == 0)
                                for sample in range(options.samples)
                            ]
                        )
                with otel_rl.phase("train"):
                    train(policy, optimizer, groups)
                with otel_rl.phase("sync"):
                    engine.update(policy)
            rewards = [trajectory.reward for group in groups for trajectory in group]
            print(f"step {number}: mean reward {statistics.fmean(rewards):.3f} of {len(rewards)} trajectories")


def main() -> None:
    has_vllm = importlib.util.find_spec("vllm") is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3, help="how many (default 3)")
    parser.add_argument("--prompts", type=int, default=2, help="questions in a step (default 2)")
    parser.add_argument("--samples", type=int, default=4, help="trajectories of a question (default 4)")
    parser.add_argument(
        "--engine", choices=["vllm", "transformers", "served"], default="vllm" if has_vllm else "transformers"
    )
    options = parser.parse_args()
    # More threads only wait for each other: the model is tiny.
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as resources:
        folder = build(Path(scratch) / "tiny", heads=HEADS)
        asyncio.run(run(options, folder, start(options.engine, folder, resources)))


if __name__ == "__main__":
    main()
