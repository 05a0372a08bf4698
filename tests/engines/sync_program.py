"""A trainer and vLLM's `LLM` in one process, in fp32 and with a large learning rate; syncs can be made to go wrong.

    python sync_program.py MODEL STEPS [STEP=FAULT ...]

A fault is `skipped` (the operation brings the weights of the sync before), `forgotten` (no operation), `partial` (only
the first half of the tensors) or `still` (no update of the parameters, and a sync). Prints the tokens of each step.
"""

import json
import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams, _custom_ops

import otel_rl

# vLLM's CPU build packs weights where nobody can read them. Without oneDNN it keeps its tensors, as on a GPU.
_custom_ops._supports_onednn = False

LEARNING_RATE = 0.5
#: Longer than a block of the prefix cache.
PROMPT = list(range(10, 80))


def load(weights):
    """A function that gives the engine's model these weights."""

    def load_weights(model):
        return len(model.load_weights(iter(weights)) or ())

    return load_weights


def train(policy, optimizer, dice) -> None:
    tokens = torch.randint(5, policy.config.vocab_size - 5, (2, 24), generator=dice)
    optimizer.zero_grad()
    policy(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()


def sync(llm, policy, last, fault) -> None:
    weights = [(name, one.detach().clone()) for name, one in policy.named_parameters()]
    if fault == "forgotten":
        return
    if fault == "skipped":
        weights = last[0] or weights
    elif fault == "partial":
        weights = weights[: len(weights) // 2]
    else:
        last[0] = weights
    if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0":
        llm.apply_model(load(weights))
    else:
        # The engine is a process of its own: by a file.
        if fault != "skipped":
            policy.save_pretrained("weights")
        llm.collective_rpc("reload_weights", kwargs={"weights_path": str(Path("weights").resolve())})
    llm.reset_prefix_cache()


def told_of(output) -> list:
    return [int(output.request_id), output.num_cached_tokens, list(output.outputs[0].token_ids)]


def main(folder: str, count: int, faults: dict[int, str]) -> None:
    llm = LLM(
        folder,
        served_model_name="tiny",
        dtype="float32",
        enforce_eager=True,
        max_model_len=128,
        max_num_seqs=8,
        block_size=32,
        seed=0,
    )
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.SGD(policy.parameters(), lr=LEARNING_RATE)
    dice = torch.Generator().manual_seed(0)
    last = [None]
    generated = []
    greedy, seeded, free = (
        SamplingParams(max_tokens=5, temperature=0),
        SamplingParams(max_tokens=5, temperature=1.0, seed=7),
        SamplingParams(max_tokens=5, temperature=1.0),
    )
    for number in range(1, count + 1):
        with otel_rl.step(number):
            with otel_rl.phase("sample"):
                prompts = [{"prompt_token_ids": PROMPT}] * 3
                outputs = llm.generate(prompts, [greedy, seeded, free], use_tqdm=False)
                generated.append([told_of(output) for output in outputs])
            with otel_rl.phase("train"):
                if faults.get(number) != "still":
                    train(policy, optimizer, dice)
            with otel_rl.phase("sync"):
                sync(llm, policy, last, faults.get(number))
    print(json.dumps(generated))


if __name__ == "__main__":
    given = dict(one.split("=") for one in sys.argv[3:])
    main(sys.argv[1], int(sys.argv[2]), {int(step): fault for step, fault in given.items()})
