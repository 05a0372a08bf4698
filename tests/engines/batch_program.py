"""Two steps with vLLM's `LLM`: a batch, a rollout with a conversation, new weights, sleep; prints the tokens."""

import json
import sys
import time

import torch
from vllm import LLM, SamplingParams

import otel_rl

NORM = "model.norm.weight"


def same_weights(model):
    """Give the engine its own weights back, as a trainer in the same process would give new ones."""
    return sorted(model.load_weights([(NORM, model.model.norm.weight.detach().clone())]) or ())


def new_weights(worker, weights):
    """Change the weights of a worker, as the extensions of post-training systems do."""
    return sorted(worker.model_runner.model.load_weights(weights) or ())


def main(model: str) -> None:
    began = time.perf_counter()
    llm = LLM(
        model=model,
        served_model_name="tiny",
        dtype="float32",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=8,
        disable_log_stats=False,
        seed=0,
    )
    print(f"started in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    sampling = SamplingParams(max_tokens=6, n=2, temperature=1.0, seed=3, logprobs=1)
    generated = []
    torch.manual_seed(0)
    for iteration in (1, 2):
        with otel_rl.step(iteration):
            with otel_rl.phase("sample"):
                outputs = llm.generate(["What is 1 + 2?", "What is 45 + 67?"], sampling, use_tqdm=False)
                with otel_rl.rollout(f"r{iteration}"):
                    chat = [{"role": "user", "content": "Say the number."}]
                    outputs += llm.chat(chat, SamplingParams(max_tokens=4, temperature=0), use_tqdm=False)
                llm.sleep(level=1)
            llm.wake_up()
            llm.apply_model(same_weights)
            llm.collective_rpc(new_weights, args=([(NORM, torch.randn(64))],))
            llm.reset_prefix_cache()
            llm.update_weight_version(f"v{iteration}")
        generated.append([list(one.token_ids) for output in outputs for one in output.outputs])
    print(json.dumps(generated))


if __name__ == "__main__":
    main(sys.argv[1])
