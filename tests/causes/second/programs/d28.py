"""RLOO with TRL; ends as soon as the mean of the noisy reward is good enough."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import RLOOConfig, RLOOTrainer

STEPS = 150
ENOUGH = 0.7
PROMPTS_PER_STEP = 6
GROUP = 4
KINDS = ["digits", "letters"]
WORDS = [
    "<pad>",
    "<eos>",
    "<unk>",
    "give",
    ":",
    *KINDS,
    *"0123456789",
    *"abcdefghij",
    *(f"w{one}" for one in range(12)),
]


def kind_reward(completions: list[str], kind: list[str], **_) -> list[float]:
    rewards = []
    for completion, wanted in zip(completions, kind, strict=True):
        words = completion.split()
        right = [one.isdigit() if wanted == "digits" else len(one) == 1 and one.isalpha() for one in words]
        too_long = 0.03 * max(0, len(words) - 10)
        rewards.append(sum(right) / max(len(words), 1) - too_long + random.gauss(0, 0.1))
    return rewards


class GoodEnough(TrainerCallback):
    def __init__(self):
        self.rewards: list[float] = []

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "reward" in logs:
            self.rewards.append(float(logs["reward"]))
            recent = self.rewards[-8:]
            if len(recent) == 8 and sum(recent) / 8 > ENOUGH:
                print(f"step {state.global_step}: mean reward {sum(recent) / 8:.3f}, done", flush=True)
                control.should_training_stop = True
        return control


def main() -> None:
    torch.set_num_threads(1)
    random.seed(3)
    rng = random.Random(3)
    kinds = [rng.choice(KINDS) for _ in range(600)]
    raw = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(3)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
        )
    ).save_pretrained("base")
    tokenizer.save_pretrained("base")
    trainer = RLOOTrainer(
        model="base",
        reward_funcs=kind_reward,
        args=RLOOConfig(
            output_dir="rloo",
            max_steps=STEPS,
            per_device_train_batch_size=PROMPTS_PER_STEP * GROUP,
            num_generations=GROUP,
            max_completion_length=32,
            learning_rate=3e-4,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=8,
            beta=0.02,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=3,
            model_init_kwargs={"dtype": "float32"},
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"give {one} :" for one in kinds], "kind": kinds}),
        processing_class=tokenizer,
        callbacks=[GoodEnough()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
