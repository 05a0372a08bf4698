"""A trainer and vLLM's `LLM` in one process that compare their log-probabilities; from a step on syncs go wrong.

    python drift_program.py PLAN MODEL

The plan is a file of JSON: `steps`, and `change` with the `step` from which on a `fault` holds: `skipped` (the engine
gets no weights) or `partial` (the first half of the tensors). The loop is plain policy gradient: each prompt is a
rollout, the reward is the share of even tokens. The trainer has the log-probabilities for its loss anyway.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams, _custom_ops

import otel_rl

# vLLM's CPU build packs weights where nobody can read them. Without oneDNN it keeps its tensors, as on a GPU.
_custom_ops._supports_onednn = False

LEARNING_RATE = 0.3
ROLLOUTS, TOKENS = 8, 16
#: Longer than a block of the prefix cache.
PROMPT = list(range(10, 80))


def take(worker, weights):
    """Give a worker of the engine these weights, as the extensions of post-training systems do."""
    return len(worker.model_runner.model.load_weights(weights) or ())


def sync(llm, policy, fault) -> None:
    weights = [(name, one.detach().clone()) for name, one in policy.named_parameters()]
    if fault == "partial":
        weights = weights[: len(weights) // 2]
    if fault != "skipped":
        llm.collective_rpc(take, args=(weights,))
    llm.reset_prefix_cache()


def sample(llm, number, step):
    """The answer in one rollout: tokens, the engine's log-probabilities, reward."""
    parameters = SamplingParams(max_tokens=TOKENS, temperature=1.0, logprobs=0, seed=1000 * step + number)
    with otel_rl.rollout(sample_id=f"{step}-{number}", group_id=str(step)):
        [found] = llm.generate([{"prompt_token_ids": PROMPT}], parameters, use_tqdm=False)
        [answer] = found.outputs
        tokens = list(answer.token_ids)
        reward = sum(token % 2 == 0 for token in tokens) / len(tokens)
        otel_rl.reward("even", reward)
    return tokens, [one[token].logprob for one, token in zip(answer.logprobs, tokens, strict=True)], reward


def train(policy, optimizer, samples) -> None:
    rewards = torch.tensor([reward for _, _, reward in samples])
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    losses, differences = [], []
    for (tokens, engine, _), advantage in zip(samples, advantages, strict=True):
        logits = policy(torch.tensor([[*PROMPT, *tokens]])).logits[0, len(PROMPT) - 1 : -1]
        ours = logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]
        differences += (ours.detach() - torch.tensor(engine)).abs().tolist()
        losses.append(-advantage * ours.mean())
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    otel_rl.metric("loss", loss.item())
    otel_rl.metric("reward", rewards.mean().item())
    otel_rl.metric("logprob_difference", sum(differences) / len(differences))
    otel_rl.metric("logprob_difference/max", max(differences))
    print(f"{rewards.mean().item():.3f} {sum(differences) / len(differences):.6f}", flush=True)


def main(plan, folder: str) -> None:
    change = plan.get("change", {})
    torch.set_num_threads(1)
    llm = LLM(
        folder,
        served_model_name="tiny",
        dtype="float32",
        enforce_eager=True,
        max_model_len=128,
        max_num_seqs=8,
        block_size=32,
        disable_log_stats=False,
        seed=0,
    )
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.SGD(policy.parameters(), lr=LEARNING_RATE)
    for step in range(1, plan["steps"] + 1):
        with otel_rl.step(step):
            with otel_rl.phase("sample"):
                samples = [sample(llm, number, step) for number in range(ROLLOUTS)]
            with otel_rl.phase("train"):
                train(policy, optimizer, samples)
            with otel_rl.phase("sync"):
                sync(llm, policy, change["fault"] if step >= change.get("step", step + 1) else None)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2])
