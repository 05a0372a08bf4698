"""Write questions for verl: `python make_data.py FILE.parquet`."""

import random
import sys

import datasets

random.seed(0)
PAIRS = [(random.randint(0, 9), random.randint(0, 9)) for _ in range(32)]  # noqa: S311 - no secret
datasets.Dataset.from_list(
    [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"what is {a} + {b}? End with #### answer"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(a + b)},
            "extra_info": {"split": "train", "index": index},
        }
        for index, (a, b) in enumerate(PAIRS)
    ]
).to_parquet(sys.argv[1])
