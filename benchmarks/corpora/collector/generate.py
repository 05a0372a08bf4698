"""Write the corpus of the collector's benchmarks: traces.jsonl and texts.jsonl, always the same for the same SEED.

    python benchmarks/corpora/collector/generate.py [--check]

`traces.jsonl` holds the shape of the spans (step traces and rollout traces), `texts.jsonl` the free text that the
variants hang on them. Nothing comes from a real run. `{fresh}` marks where a sender writes something new each time,
`{secret}` where a made-up secret is put at run time: the files hold none.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

SEED = 20261121
HERE = Path(__file__).resolve().parent
STEPS = 8
ROLLOUTS_PER_STEP = 14
PLAIN_TEXTS, KEYWORD_TEXTS, DENSE_TEXTS, SECRET_TEXTS = 1600, 400, 400, 100

WORDS = {
    "subject": (
        *("the policy", "the verifier", "the sandbox", "a worker"),
        *("the grader", "the environment", "the reference model", "the planner"),
    ),
    "verb": (
        *("solved", "rejected", "rewrote", "summarised", "checked"),
        *("repeated", "truncated", "scored", "skipped", "delayed"),
    ),
    "object": (
        *("the equation", "a proof step", "the unit tests", "the search results"),
        *("the last answer", "a tool result", "the plan", "the table"),
    ),
    "reason": (
        *("because the budget was spent", "after two retries", "since the format was wrong", "before the deadline"),
        *("as the reward was flat", "although the group agreed", "while the queue was long", "with a partial match"),
    ),
    "dataset": ("gsm8k", "math-500", "code-contests", "web-shop", "alf-world", "tau-bench"),
    "number": tuple(str(number) for number in range(3, 4000, 37)),
}
PLAIN = (
    "Episode {fresh} of {dataset}: {subject} {verb} {object} {reason}.",
    "{subject} {verb} {object} in attempt {number}; see episode {fresh}.",
    "If a train leaves at {number} km/h and {subject} {verb} {object}, how long is case {fresh}?",
    "def solve(case_{fresh}): return [{number} * row for row in table if row > {number}]",
    "Row {fresh}: {object} {reason}, {subject} {verb} {object}, score below {number}.",
    "SELECT name, score FROM episodes WHERE dataset = '{dataset}' AND episode = '{fresh}' LIMIT {number}",
)
KEYWORD = (
    "Episode {fresh}: {subject} {verb} {object} at token {number} of the answer {reason}.",
    "The key idea in case {fresh} is that {subject} {verb} {object}; key step {number}.",
    "Each token after position {number} was masked {reason} in episode {fresh}.",
    "{subject} called the api of {dataset} for case {fresh} and {verb} {object}.",
    "The secret of case {fresh}: {subject} {verb} {object} {reason}.",
)
DENSE = (
    "token key {fresh}: {subject} compares each api token with the key token, the secret key and the password token",
    "api key and access token of case {fresh}: password check, secret share, private key idea, token budget {number}",
    "auth token {fresh} secret password credential key api client id, {subject} {verb} {object}, token {number}",
)
SECRET = (
    "call with api_key={secret} for episode {fresh} {reason}",
    "export SERVICE_PASSWORD='{secret}' # episode {fresh}, {subject} {verb} {object}",
    "Authorization: Bearer {secret} was sent by {subject} in episode {fresh}",
    'request {fresh} {{"client_secret": "{secret}", "dataset": "{dataset}"}}',
)
MODEL = "Qwen/Qwen3-8B"
PHASES = ("rl.sample", "rl.reward", "rl.train", "rl.sync")
TRAIN_PARTS = ("rl.log_probs", "rl.forward", "rl.backward", "rl.optimizer")
TOOLS = ("python", "search", "calculator", "file_read")


def texts(pick: random.Random) -> list[dict[str, str]]:
    """Return the texts of all kinds; a secret text is its own kind since it is placed by share."""
    made = []
    for kind, templates, number in (
        ("plain", PLAIN, PLAIN_TEXTS),
        ("keyword", KEYWORD, KEYWORD_TEXTS),
        ("dense", DENSE, DENSE_TEXTS),
        ("secret", SECRET, SECRET_TEXTS),
    ):
        for _ in range(number):
            words = {name: pick.choice(choices) for name, choices in WORDS.items()}
            words |= {placeholder: f"{{{placeholder}}}" for placeholder in ("fresh", "secret")}
            text = pick.choice(templates).format_map(words)
            made.append({"kind": kind, "text": text})
    return made


def _span(name: str, parent: int, start: float, seconds: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "parent": parent, "start": round(start, 3), "seconds": round(seconds, 3), **more}


def step_trace(pick: random.Random, step: int) -> dict[str, Any]:
    """One iteration as one rank sees it: the root, the phases and the parts of training."""
    attributes = {"rl.loop.iteration": step}
    spans = [_span("rl.loop", -1, 0.0, 40.0, attributes=attributes), _span("rl.rank.step", 0, 0.0, 40.0)]
    clock = 0.0
    for phase in PHASES:
        seconds = pick.uniform(1, 18)
        spans.append(_span(phase, 1, clock, seconds, attributes=attributes))
        if phase == "rl.train":
            where = len(spans) - 1
            parts = [
                _span(part, where, clock + index * seconds / 4, seconds / 4, attributes=attributes)
                for index, part in enumerate(TRAIN_PARTS)
            ]
            spans += parts
        clock += seconds
    return {"kind": "step", "rank": step % 8, "spans": spans}


def rollout_trace(pick: random.Random, step: int, group: int) -> dict[str, Any]:
    """One trajectory: an agent that calls a model and tools in turns, and its reward."""
    turns = pick.choice((1, 2, 2, 3, 4))
    failed = pick.random() < 0.02
    common = {
        "rl.rollout.id": "rollout-{fresh}",
        "rl.sample.id": f"gsm8k-{step * 100 + group}",
        "rl.group.id": f"step-{step}-prompt-{group}",
        "rl.policy.version": str(step),
        "rl.loop.iteration": step,
    }
    spans = [_span("rl.rollout", -1, 0.0, 4.0 * turns + 1, attributes=common, failed=failed)]
    spans.append(
        _span("invoke_agent solver", 0, 0.0, 4.0 * turns, attributes={"gen_ai.agent.name": "solver", **common})
    )
    clock = 0.0
    for turn in range(turns):
        seconds = pick.uniform(0.5, 3.0)
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.model": MODEL,
            "gen_ai.response.id": "chatcmpl-{fresh}",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.max_tokens": 1024,
            "gen_ai.request.temperature": 1.0,
            "gen_ai.usage.input_tokens": pick.randrange(100, 4000),
            "gen_ai.usage.output_tokens": pick.randrange(10, 900),
            "server.address": "127.0.0.1",
            "server.port": 8000,
            **common,
        }
        spans.append(_span(f"chat {MODEL}", 1, clock, seconds, client=True, attributes=chat))
        clock += seconds
        if turn < turns - 1:
            tool = pick.choice(TOOLS)
            call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
            call |= {"gen_ai.tool.call.id": "call_{fresh}", **common}
            spans.append(_span(f"execute_tool {tool}", 1, clock, 0.4, attributes=call))
            clock += 0.4
    score = {
        "gen_ai.evaluation.name": "accuracy_reward",
        "gen_ai.evaluation.score.value": pick.choice((0.0, 0.0, 0.5, 1.0)),
    }
    spans.append(_span("rl.reward", 0, clock, 0.1, attributes={**score, **common}))
    return {"kind": "rollout", "rank": group % 8, "spans": spans}


def traces(pick: random.Random) -> list[dict[str, Any]]:
    """Return all traces, each step followed by its rollouts."""
    made = []
    for step in range(STEPS):
        made.append(step_trace(pick, step))
        made += [rollout_trace(pick, step, group) for group in range(ROLLOUTS_PER_STEP)]
    return made


def files() -> dict[Path, str]:
    """Return what each file has to contain."""
    pick = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    lines = {"texts.jsonl": texts(pick), "traces.jsonl": traces(pick)}
    return {HERE / name: "".join(json.dumps(line) + "\n" for line in made) for name, made in lines.items()}


def main() -> int:
    """Write the files, or with --check say whether they are as this program writes them."""
    stale = [path for path, content in files().items() if not path.exists() or path.read_text() != content]
    if "--check" in sys.argv[1:]:
        print("".join(f"{path.name} is not what generate.py writes\n" for path in stale), end="")
        return 1 if stale else 0
    for path, content in files().items():
        path.write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
