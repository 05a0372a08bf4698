"""RLOO in two phases; the second has its own settings of generation."""

from __future__ import annotations

import random

import small
from datasets import Dataset
from transformers import GenerationConfig, TrainerCallback
from trl import RLOOConfig, RLOOTrainer

words = small.tokenizer("abcdefgh")
generator = random.Random(2)
prompts = ["".join(generator.choices("abcdefgh", k=8)) for _ in range(400)]
LONGEST = 72
PHASES = {0: {}, 25: {"min_new_tokens": 72, "temperature": 1.0}}


class Phases(TrainerCallback):
    """Takes the settings of the phase that begins after a step."""

    def on_step_end(self, args, state, control, **_):
        if state.global_step in PHASES:
            changed = {**trainer.generation_config.to_dict(), **PHASES[state.global_step]}
            trainer.generation_config = GenerationConfig.from_dict(changed)


def variety(completions, **_):
    return [len(set(text)) / 8 for text in completions]


def ends_well(completions, **_):
    return [0.5 * text.endswith(("a", "b", "c")) for text in completions]


small.policy(words, ends=0.09).save_pretrained("model")
trainer = RLOOTrainer(
    model="model",
    reward_funcs=[variety, ends_well],
    args=RLOOConfig(
        output_dir="out",
        max_steps=50,
        per_device_train_batch_size=16,
        num_generations=4,
        max_completion_length=LONGEST,
        learning_rate=2e-4,
        beta=0.02,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": prompts}),
    processing_class=words,
    callbacks=[Phases()],
)
trainer.train()
