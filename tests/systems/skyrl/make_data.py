"""Sums to learn, as SkyRL's environment of GSM8K takes them: `python make_data.py FILE PROMPTS`."""

from __future__ import annotations

import random
import sys

import datasets


def row(number: int) -> dict[str, object]:
    """Return one question."""
    first, second = random.randint(0, 9), random.randint(0, 9)  # noqa: S311 - no secret
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"what is {first} + {second}? End with #### answer"}],
        "env_class": "gsm8k",
        "reward_spec": {"method": "rule", "ground_truth": str(first + second)},
        "extra_info": {"split": "train", "index": number},
    }


if __name__ == "__main__":
    random.seed(0)
    datasets.Dataset.from_list([row(number) for number in range(int(sys.argv[2]))]).to_parquet(sys.argv[1])
