"""The cookbook's `rl.train.main` on sums whose reward a random model can earn: `rl.py FOLDER STEPS [asynchronous]`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import chz
from tinker_cookbook import model_info, renderers
from tinker_cookbook.recipes.math_rl.arithmetic_env import ArithmeticDataset, ArithmeticEnv
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

MODEL = "Qwen/Qwen3-8B"
FOLDER, STEPS, *MORE = sys.argv[1:]
RENDERER = model_info.get_recommended_renderer_name(MODEL)


class EvenEnv(ArithmeticEnv):
    def check_answer(self, sample_str):
        return sum(map(ord, sample_str)) % 2 == 0


class EvenDataset(ArithmeticDataset):
    def _make_env_group_builder(self, rng):
        environment = partial(EvenEnv, rng.randint(0, 101), rng.randint(0, 101), renderer=self.renderer)
        return ProblemGroupBuilder(env_thunk=environment, num_envs=self.group_size)


def dataset(batches):
    renderer = renderers.get_renderer(RENDERER, tokenizer=get_tokenizer(MODEL))
    return EvenDataset(batch_size=3, renderer=renderer, n_batches=batches, include_fewshot=False, group_size=4)


@chz.chz
class Builder(RLDatasetBuilder):
    async def __call__(self):
        return dataset(int(STEPS)), None if MORE else dataset(1)


asyncio.run(
    train.main(
        train.Config(
            model_name=MODEL,
            recipe_name="test",
            renderer_name=RENDERER,
            log_path=FOLDER,
            dataset_builder=Builder(),
            learning_rate=1e-3,
            max_tokens=12,
            eval_every=2,
            save_every=2,
            lora_rank=8,
            base_url=os.environ["TINKER_BASE_URL"],
            async_config=train.AsyncConfig(max_steps_off_policy=2, groups_per_batch=3) if MORE else None,
        )
    )
)
