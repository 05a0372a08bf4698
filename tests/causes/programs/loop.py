"""Teach a small recurrent policy short answers with REINFORCE, two tools and three rewards.

python loop.py [--steps 60] [--seed 0] [--lr 2e-3] [--schedule constant|cosine|warmup] [--eval-every N] ...
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from bugs import has, now, wait
from torch import nn

import otel_rl

SYMBOLS = "0123456789abcde +"
END = len(SYMBOLS)
BEGIN = END + 1
LONGEST = 24
log = logging.getLogger("train")


class Policy(nn.Module):
    """Gives the next symbol of an answer."""

    def __init__(self, hidden: int = 96) -> None:
        super().__init__()
        self.symbols = nn.Embedding(BEGIN + 1, 32)
        self.cell = nn.GRUCell(32, hidden)
        self.head = nn.Linear(hidden, END + 1)

    def start(self, question: list[int]) -> torch.Tensor:
        state = torch.zeros(1, self.cell.hidden_size)
        for symbol in question:
            state = self.cell(self.symbols(torch.tensor([symbol])), state)
        return state

    def forward(self, questions: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the next symbol at each place of the answers."""
        state = torch.zeros(len(questions), self.cell.hidden_size)
        for column in questions.T:
            state = self.cell(self.symbols(column), state)
        found, last = [], torch.full((len(questions),), BEGIN)
        for column in answers.T:
            state = self.cell(self.symbols(last), state)
            found.append(self.head(state).log_softmax(-1))
            last = column
        return torch.stack(found, dim=1)


@dataclass
class Episode:
    """One answer, and what it got."""

    question: str
    record: Any = None
    context: int = 0
    answer: list[int] = field(default_factory=list)
    reward: float = 0.0
    advantage: float = 0.0

    @property
    def text(self) -> str:
        return "".join(SYMBOLS[symbol] for symbol in self.answer if symbol < END)


# -- tools ------------------------------------------------------------------------------------------------------------


@otel_rl.tool("search")
def search(query: str) -> str:
    """Look the question up in the notes."""
    wait(0.005)
    if has("index_rebuild", since=22, every=3) and query not in seen:
        wait(0.13)
    seen.add(query)
    found = f"notes on {query}: " + "see the table of sums. " * random.randint(3, 6)
    if has("search_pages", since=20):
        found *= min(2 ** ((now["step"] - 20) // 3), 100)
    return found


@otel_rl.tool("python")
def calculate(expression: str) -> str:
    """Run the expression in the sandbox."""
    wait(0.004)
    if has("sandbox_quota", since=26) and random.random() < 0.6:
        return "Error: quota of the sandbox exceeded, try again later"
    left, right = expression.split("+")
    return str(int(left) + int(right))


def run_code(expression: str) -> str:
    """Return the sandbox's answer, after a few tries."""
    result = ""
    for _ in range(3):
        result = calculate(expression)
        if not result.startswith("Error"):
            break
    return result


#: Queries of this step.
seen: set[str] = set()


# -- rewards ----------------------------------------------------------------------------------------------------------

verdicts: dict[str, float] = {}


def digits(text: str) -> float:
    return sum(symbol.isdigit() for symbol in text) / max(len(text), 1)


def brevity(text: str) -> float:
    return 1.0 - min(abs(len(text) - wanted["length"]) / 12, 1.0)


#: A curriculum asks for longer answers later.
wanted = {"length": 6}


def judge(text: str) -> float:
    """A small model's opinion, with its noise; it costs a request."""
    if has("judge_cache", since=24):
        text = ""  # the key of the cache lost the answer
        if text not in verdicts:
            verdicts[text] = 0.531
        return verdicts[text]
    wait(0.003)
    return min(max(0.4 + 0.3 * digits(text) + random.gauss(0.0, 0.08), 0.0), 1.0)


def score(text: str) -> float:
    total = 0.0
    for function, weight in ((digits, 1.0), (brevity, 0.5), (judge, 0.5)):
        with otel_rl.reward_function(function.__name__, weight=weight) as call:
            value = function(text)
            call.score(value)
        total += weight * value
    return total


# -- the loop ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def sample(policy: Policy, question: str, context: int, longest: int) -> list[int]:
    with otel_rl.llm("policy", provider="local", temperature=1.0) as call:
        state, last, answer = policy.start(encode(question)), BEGIN, []
        while len(answer) < longest:
            state = policy.cell(policy.symbols(torch.tensor([last])), state)
            last = int(torch.distributions.Categorical(logits=policy.head(state)[0]).sample())
            answer.append(last)
            if last == END:
                break
        # Reading the context costs time too.
        time.sleep(context * 2e-6)
        call.usage(input_tokens=context + len(question), output_tokens=len(answer))
        call.finish("stop" if last == END else "length")
        return answer


def encode(text: str) -> list[int]:
    return [SYMBOLS.index(symbol) for symbol in text]


def run_episode(policy: Policy, question: str, group: str, version: int, longest: int) -> Episode:
    with otel_rl.rollout(sample_id=question, group_id=group, policy_version=version) as record:
        episode = Episode(question, record)
        found = search(question)
        episode.context = len(found)
        result = run_code(question)
        episode.answer = sample(policy, question, episode.context + len(result), longest)
        episode.reward = score(episode.text)
        if result.startswith("Error"):
            episode.reward -= 0.2
        record.succeed(episode.reward > 1.0)
        return episode


def advantages(group: list[Episode]) -> None:
    rewards = [one.reward for one in group]
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    for one in group:
        one.advantage = (one.reward - mean) / (spread + 1e-4)
        one.record.train(one.advantage)


def update(
    policy: Policy, optimizer: torch.optim.Optimizer, first: Policy, episodes: list[Episode]
) -> dict[str, float]:
    width = max(len(one.answer) for one in episodes)
    questions = torch.tensor([encode(one.question) for one in episodes])
    answers = torch.tensor([one.answer + [END] * (width - len(one.answer)) for one in episodes])
    mask = torch.tensor([[float(place < len(one.answer)) for place in range(width)] for one in episodes])
    weights = torch.tensor([one.advantage for one in episodes])[:, None]
    with otel_rl.phase("forward"):
        logs = policy(questions, answers)
        chosen = logs.gather(-1, answers[..., None])[..., 0]
        with torch.no_grad():
            kept = first(questions, answers)
        kl = ((logs.exp() * (logs - kept)).sum(-1) * mask).sum() / mask.sum()
        entropy = (-(logs.exp() * logs).sum(-1) * mask).sum() / mask.sum()
        loss = -(weights * chosen * mask).sum() / mask.sum() + 0.2 * kl - 0.01 * entropy
    with otel_rl.phase("backward"):
        optimizer.zero_grad()
        loss.backward()
    with otel_rl.phase("optimizer"):
        norm = clip(policy)
        optimizer.step()
    if has("history_graph", since=10):
        history.append((loss, torch.zeros(2_000_000)))
    return {"loss": loss.item(), "kl": kl.item(), "entropy": entropy.item(), "grad_norm": norm}


history: list[Any] = []


def clip(policy: Policy) -> float:
    limit = 0.2 if has("clip_unit", since=30) else 5.0
    norm = float(torch.nn.utils.clip_grad_norm_(policy.parameters(), limit))
    return min(norm, limit)


def evaluate(policy: Policy, options: argparse.Namespace) -> float:
    questions = options.eval_questions
    if has("eval_grows", since=28):
        questions *= 6
    with otel_rl.phase("evaluate"):
        scores = []
        for _ in range(questions):
            answer = Episode("0+0", answer=sample(policy, make_question(), 0, LONGEST)).text
            scores.append(digits(answer))
            wait(0.003)
        return statistics.fmean(scores)


def make_question(level: int = 0) -> str:
    return (
        f"{random.randrange(10)}+{random.randrange(10)}"
        if level == 0
        else f"{random.randrange(10, 100)}+{random.randrange(10)}"
    )


def save(folder: Path, number: int, policy: Policy, optimizer: Any, replay: list[Episode]) -> None:
    state = {"step": number, "policy": policy.state_dict(), "optimizer": optimizer.state_dict()}
    if has("checkpoint_replay", since=24):
        state["replay"] = torch.zeros(500_000 * 2 ** min((number - 24) // 6, 5))
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / f"step-{number}.pt")
    wait(0.02)


def schedule(options: argparse.Namespace, number: int) -> float:
    if options.schedule == "cosine":
        return options.lr * 0.5 * (1 + math.cos(math.pi * number / options.steps))
    if options.schedule == "warmup":
        return options.lr * min(number / 12, 1.0)
    return options.lr


def resume(options: argparse.Namespace, policy: Policy, optimizer: torch.optim.Optimizer) -> int:
    """Return the step after which to go on."""
    saved = sorted(Path("checkpoints").glob("step-*.pt"), key=lambda file: int(file.stem[5:]))
    if not options.resume or not saved:
        return 0
    state = torch.load(saved[-1])
    policy.load_state_dict(state["policy"])
    if not has("resume_fresh", since=0):
        optimizer.load_state_dict(state["optimizer"])
    log.info("resumed from %s", saved[-1])
    return state["step"]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--schedule", default="constant")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--longest", type=int, default=LONGEST)
    parser.add_argument("--grow", action="store_true", help="let answers become longer")
    parser.add_argument("--curriculum", type=int, default=0, help="step from which on questions are harder")
    parser.add_argument("--uneven", action="store_true", help="batches of uneven size")
    parser.add_argument("--eval-every", type=int, default=0)
    parser.add_argument("--eval-questions", type=int, default=12)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-after", type=int, default=0, help="end after this step: the time of the job is over")
    parser.add_argument("--slow-start", type=float, default=0.0)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    policy, first = Policy(), Policy()
    first.load_state_dict(policy.state_dict())
    optimizer = torch.optim.Adam(policy.parameters(), lr=options.lr)
    options.begun = resume(options, policy, optimizer)
    for number in range(options.begun + 1, options.steps + 1):
        now["step"] = number
        with otel_rl.step(number):
            train_step(options, number, policy, first, optimizer)
        if number == options.stop_after:
            break


def collect(options: argparse.Namespace, number: int, policy: Policy) -> list[Episode]:
    """Return the episodes of a step, with their advantages."""
    seen.clear()
    if number == options.curriculum:
        wanted["length"] = 14
    longest = min(4 + number // 2, 40) if options.grow else options.longest
    episodes = []
    for index in range(random.choice((2, 4, 6)) if options.uneven else options.prompts):
        question = make_question(int(0 < options.curriculum <= number)).zfill(4)
        group = [
            run_episode(policy, question, f"{number}-{index}", number - 1, longest) for _ in range(options.samples)
        ]
        advantages(group)
        episodes += group
    return episodes


def train_step(options: argparse.Namespace, number: int, policy: Policy, first: Policy, optimizer: Any) -> None:
    rate = schedule(options, number - options.begun if has("resume_fresh", since=0) else number)
    for group in optimizer.param_groups:
        group["lr"] = rate
    if has("optimizer_of_old", since=25) and number == 25:
        # "Reset the head": new tensors, which the optimizer does not know.
        for part in (policy.symbols, policy.cell, policy.head):
            for name, tensor in list(part.named_parameters()):
                setattr(part, name, nn.Parameter(tensor.detach().clone()))
    if options.slow_start and number == 1:
        wait(options.slow_start)
    with otel_rl.phase("sample"):
        episodes = collect(options, number, policy)
    with otel_rl.phase("train"):
        values = update(policy, optimizer, first, episodes)
    rewards = [one.reward for one in episodes]
    values |= {
        "reward": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        "learning_rate": rate,
        "response_length": statistics.fmean(len(one.answer) for one in episodes),
        "context_length": statistics.fmean(one.context for one in episodes),
    }
    if options.eval_every and number % options.eval_every == 0:
        values["eval/digits"] = evaluate(policy, options)
    for key, value in values.items():
        otel_rl.metric(key, value)
    if options.save_every and number % options.save_every == 0:
        with otel_rl.phase("checkpoint"):
            save(Path("checkpoints"), number, policy, optimizer, episodes)
    log.info("step %d reward %.3f loss %.4f norm %.3f", number, values["reward"], values["loss"], values["grad_norm"])


if __name__ == "__main__":
    main()
