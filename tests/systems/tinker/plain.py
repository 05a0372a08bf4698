"""A loop on the client alone, without the cookbook: `plain.py FOLDER STEPS`; it prints the updates that it has made."""

from __future__ import annotations

import os
import sys

import tinker
from tinker import types

MODEL = "Qwen/Qwen3-8B"
_, STEPS = sys.argv[1:]

service = tinker.ServiceClient(base_url=os.environ["TINKER_BASE_URL"])
trained = service.create_lora_training_client(base_model=MODEL, rank=8)
prompt = types.ModelInput.from_ints([1, 2, 3, 4, 5, 6])
updates = 0
for step in range(int(STEPS)):
    path = trained.save_weights_for_sampler(name=f"step-{step}").result().path
    sampler = service.create_sampling_client(model_path=path)
    asked = [sampler.sample(prompt, 2, types.SamplingParams(max_tokens=8, temperature=1.0)) for _ in range(3)]
    data = []
    for answer in asked:
        for sequence in answer.result().sequences:
            tokens = prompt.to_ints() + sequence.tokens
            inputs = {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)}
            data.append(types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs))
    gradients = trained.forward_backward(data, "cross_entropy")
    update = trained.optim_step(types.AdamParams(learning_rate=1e-3))
    gradients.result()
    update.result()
    updates += 1
trained.save_state("final").result()
print(f"updates: {updates}")
