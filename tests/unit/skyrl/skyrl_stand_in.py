"""Stand-ins for what SkyRL 0.4.0 calls around our hooks: the same names, signatures and kinds of functions.

SkyRL 0.4.0 needs Python 3.12, and packages of other versions than the tests' environment has.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import aiohttp

#: Who has called the timer, as it logs it.
CALLERS: list[str] = []
MODEL = "/models/Qwen/Qwen3-0.6B"


class Timer:
    def __init__(self, message, update_dict=None):
        self.message = message
        self.update_dict = update_dict

    def __enter__(self):
        self.start_time = time.time()
        CALLERS.append(sys._getframe(1).f_code.co_name)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        CALLERS.append(f"{sys._getframe(1).f_code.co_name} {time.time() - self.start_time:.0f}")
        if self.update_dict is not None:
            self.update_dict[self.message] = time.time() - self.start_time

    async def __aenter__(self):
        self.start_time = time.time()
        return self

    async def __aexit__(self, exc_type, exc_val, exc_tb):
        CALLERS.append(f"{time.time() - self.start_time:.0f}")
        if self.update_dict is not None:
            self.update_dict[self.message] = time.time() - self.start_time


class Tracking:
    def __init__(self, project_name, experiment_name, backend="console", config=None, tags=None):
        self.logged = []

    def log(self, data, step, commit=False):
        self.logged.append((step, dict(data)))


@dataclass
class TrajectoryID:
    instance_id: str
    repetition_id: int


@dataclass
class TrajectoryOutput:
    response_ids: list[int]
    reward: list[float] | float
    stop_reason: str
    env_metrics: dict[str, object]
    time_splits: dict[str, float] | None = None


@dataclass
class StepWiseOutput:
    step_outputs: list[TrajectoryOutput]
    time_splits: dict[str, float] | None = None


class RemoteInferenceClient:
    def __init__(self, proxy_url="http://127.0.0.1:1"):
        self.proxy_url = proxy_url
        self.weight_version = 0

    def increment_weight_version(self):
        self.weight_version += 1

    async def generate(self, input_batch, model=None):
        payload = {"token_ids": input_batch["prompt_token_ids"][0], "model": MODEL, "sampling_params": {}}
        url = f"{self.proxy_url}/inference/v1/generate"
        async with aiohttp.ClientSession() as session, session.post(url, json=payload) as response:
            return json.loads(await response.read())


class SkyRLGymGenerator:
    def __init__(self, client, result=None, asks=False):
        self.inference_engine_client = client
        self.asks = asks
        self.result = result or (lambda: TrajectoryOutput([5, 6], [0.0, 0.5], "stop", {"correct": 1, "note": "text"}))

    async def agent_loop(
        self,
        prompt,
        env_class,
        env_extras,
        max_tokens,
        max_input_length,
        sampling_params=None,
        trajectory_id=None,
        cache_salt=None,
        training_phase="train",
    ):
        if self.asks:
            await self.inference_engine_client.generate({"prompt_token_ids": [[1, 2, 3]]}, model=MODEL)
        return self.result()

    async def generate(self, uids, samples=2, training_phase="train"):
        loops = [
            self.agent_loop(
                [], "gsm8k", {}, 8, 8, trajectory_id=TrajectoryID(uid, number), training_phase=training_phase
            )
            for uid in uids
            for number in range(samples)
        ]
        return await asyncio.gather(*loops)


class SkyRLVLMGymGenerator(SkyRLGymGenerator):
    async def agent_loop(self, prompt, env_class, env_extras, max_tokens, max_input_length, **kwargs):
        return self.result()


class RayPPOTrainer:
    """The order of the calls of SkyRL's, with as many rounds of samples per step as ``rounds`` has; 0: all in vain."""

    def __init__(self, rounds=(1, 1), update=lambda: None, generator=None):
        algorithm = SimpleNamespace(advantage_estimator="grpo")
        policy = SimpleNamespace(model=SimpleNamespace(path=MODEL))
        self.cfg = SimpleNamespace(trainer=SimpleNamespace(algorithm=algorithm, policy=policy))
        self.rounds, self.update = rounds, update
        self.global_step, self.all_timings = 0, {}
        self.tracker = Tracking("p", "r", config={"trainer": {"lr": 0.1}})
        self.generator = generator or SkyRLGymGenerator(RemoteInferenceClient())

    async def train(self):
        with Timer("sync_weights"):
            self.generator.inference_engine_client.increment_weight_version()
        self.global_step += 1
        for rounds in self.rounds:
            for left in reversed(range(max(rounds, 1))):
                with Timer("step", self.all_timings):
                    with Timer("generate", self.all_timings):
                        await self.generator.generate([str(self.global_step)])
                    if left or not rounds:
                        continue
                    with Timer("fwd_logprobs_values_reward", self.all_timings):
                        pass
                    with Timer("compute_advantages_and_returns", self.all_timings):
                        pass
                    with Timer("train_critic_and_policy", self.all_timings), Timer("policy_train", self.all_timings):
                        self.update()
                    with Timer("sync_weights", self.all_timings):
                        self.generator.inference_engine_client.increment_weight_version()
            if not rounds:
                return
            with Timer("eval", self.all_timings):
                await self.generator.generate(["e"], samples=1, training_phase="eval")
            timings = {f"timing/{name}": value for name, value in self.all_timings.items()}
            self.tracker.log({"reward/avg_raw_reward": 0.5, **timings}, step=self.global_step, commit=True)
            self.global_step += 1


class FullyAsyncRayPPOTrainer(RayPPOTrainer):
    """Samples in tasks that begin before the steps; uses both kinds of ``with``."""

    async def train(self):
        self.global_step = 1
        buffer = asyncio.Queue()

        async def work():
            for number in range(len(self.rounds)):
                await buffer.put(await self.generator.generate([str(number)]))
                # The next group begins in the next step.
                await self.trained.wait()
                self.trained.clear()

        self.trained = asyncio.Event()
        worker = asyncio.create_task(work())
        for _ in self.rounds:
            with Timer("step", self.all_timings):
                async with Timer("wait_for_generation_buffer", self.all_timings):
                    await buffer.get()
                with Timer("convert_to_training_input", self.all_timings):
                    await asyncio.to_thread(lambda: None)
                with Timer("run_training", self.all_timings):
                    await asyncio.to_thread(self.update)
                with Timer("sync_weights", self.all_timings):
                    self.generator.inference_engine_client.increment_weight_version()
            self.tracker.log({"async/staleness_mean": 0.0}, step=self.global_step, commit=False)
            self.tracker.log({"timing/step": 1.0}, step=self.global_step, commit=True)
            self.global_step += 1
            self.trained.set()
        await worker


class SFTTrainer:
    def __init__(self, steps_=2, is_dummy=False):
        self.cfg = RayPPOTrainer().cfg
        self.sft_cfg = SimpleNamespace()
        self.steps, self.is_dummy, self.global_step = steps_, is_dummy, 0
        self.tracker = Tracking("p", "r")

    def train(self):
        for number in range(self.steps):
            if not self.is_dummy:
                self.global_step += 1
            with Timer("step", {}):
                with Timer("data_loading", {}):
                    pass
                with Timer("forward_backward", {}):
                    pass
                with Timer("optim_step", {}):
                    pass
            self.tracker.log({"train/loss": 1.0}, step=number if self.is_dummy else self.global_step, commit=True)


_MODULES = {
    "skyrl.train.utils.utils": (Timer,),
    "skyrl.train.utils.tracking": (Tracking,),
    "skyrl.train.trainer": (RayPPOTrainer,),
    "skyrl.train.fully_async_trainer": (FullyAsyncRayPPOTrainer,),
    "skyrl.train.sft_trainer": (SFTTrainer,),
    "skyrl.train.generators.skyrl_gym_generator": (SkyRLGymGenerator,),
    "skyrl.train.generators.skyrl_vlm_generator": (SkyRLVLMGymGenerator,),
    "skyrl.backends.skyrl_train.inference_servers.remote_inference_client": (RemoteInferenceClient,),
}


def modules() -> dict[str, ModuleType]:
    """The modules, by name, that hold them."""
    found = {}
    for name, contents in _MODULES.items():
        found[name] = module = ModuleType(name)
        for one in contents:
            setattr(module, one.__name__, one)
    return found
