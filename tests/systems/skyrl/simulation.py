"""SkyRL's trainers without models, on its own extension points: `python simulation.py fully_async|sync ARGUMENT...`.

Loop, generator, environments, rewards, advantages, values and the client of the engines are SkyRL's. Updates and syncs
take a while and do nothing: of `fully_async` by SkyRL's own simulated trainer, of `sync` by the same here. What SkyRL
has itself goes to the file `SKYRL_TRUTH`: what its logger gets, and the samples that it trains on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import ray
from skyrl.backends.skyrl_train.inference_servers.remote_inference_client import RemoteInferenceClient
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim, _SimDispatch
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray, validate_cfg

#: Names of flash-attn that the module of the workers imports.
ABSENT = {
    "flash_attn": (),
    "flash_attn.bert_padding": ("index_first_axis", "pad_input", "rearrange", "unpad_input"),
    "flash_attn.ops": (),
    "flash_attn.ops.triton": (),
    "flash_attn.ops.triton.cross_entropy": ("cross_entropy_loss",),
}


def write(**record: Any) -> None:
    """Add a line to the file."""
    with Path(os.environ["SKYRL_TRUTH"]).open("a") as file:
        file.write(json.dumps(record, default=float) + "\n")


class Dispatch(_SimDispatch):
    """That of SkyRL's simulated trainer, which lacks two methods in 0.4.0 that the trainers call."""

    def get_timing_metrics(self) -> dict[str, float]:
        return {}

    def finalize_pending_saves(self, model: str) -> None:
        """Nothing is saved."""


class _Watched:
    def init_weight_sync_state(self) -> None:
        self._vllm_metrics_scraper = None
        self.dispatch = Dispatch(self.inference_engine_client, 0.3)

    def postprocess_generator_output(self, output: Any, uids: list[str], **given: Any) -> Any:
        """Write down the samples of a step, by group, in the order of their repetitions."""
        sums = [sum(reward) if isinstance(reward, list) else reward for reward in output["rewards"]]
        write(kind="samples", step=self.global_step, uids=uids, rewards=sums)
        return super().postprocess_generator_output(output, uids, **given)


class FullyAsync(_Watched, FullyAsyncTrainerSim):
    """SkyRL's simulated trainer."""


class Sync(_Watched, RayPPOTrainer):
    """The synchronous trainer with real advantages."""

    def fwd_logprobs_values_reward(self, training_input: Any) -> Any:
        time.sleep(0.1)
        training_input["values"] = None
        return training_input

    def train_critic_and_policy(self, data: Any) -> dict[str, float]:
        time.sleep(0.5)
        self.all_metrics["policy/final_loss"] = 1.0 / self.global_step
        return {"final_loss": 1.0 / self.global_step}


TRAINERS = {"fully_async": FullyAsync, "sync": Sync}


class Experiment(BasePPOExp):
    """With one process for the data, the client of a server that runs, and a logger that is read."""

    def __init__(self, cfg: Any, trainer: str) -> None:
        self.kind = TRAINERS[trainer]
        super().__init__(cfg)

    def get_train_dataset(self) -> PromptDataset:
        length = self.cfg.trainer.max_prompt_length
        return PromptDataset(self.cfg.data.train_data, self.tokenizer, length, num_workers=1)

    def get_eval_dataset(self) -> PromptDataset:
        return self.get_train_dataset()

    def get_inference_client(self) -> RemoteInferenceClient:
        engine = self.cfg.generator.inference_engine
        urls = list(engine.external_server_urls)
        return RemoteInferenceClient(engine.external_proxy_url, urls, 1, self.cfg.trainer.policy.model.path)

    def get_tracker(self) -> Any:
        tracker = super().get_tracker()
        log = tracker.logger.log

        def keep(data: dict[str, Any], step: int) -> None:
            write(kind="log", step=step, data=data)
            log(data=data, step=step)

        tracker.logger.log = keep
        return tracker

    def get_trainer(self, **given: Any) -> Any:
        return self.kind(**given)


@ray.remote(num_cpus=1, max_retries=0)
def run(cfg: Any, trainer: str) -> None:
    """Train in a worker, as SkyRL's entry points do."""
    for name, contents in ABSENT.items():
        sys.modules[name] = module = ModuleType(name)
        vars(module).update(dict.fromkeys(contents), __path__=[])
    Experiment(cfg, trainer).run()


if __name__ == "__main__":
    configuration = SkyRLTrainConfig.from_cli_overrides(sys.argv[2:])
    validate_cfg(configuration)
    initialize_ray(configuration)
    import simulation

    ray.get(simulation.run.remote(configuration, sys.argv[1]))
