"""Stand-ins for what verl 0.9.1 calls around our hooks: the same names, signatures and kinds of functions.

verl is not in the test environment: it needs packages of other versions. `make test-systems` runs the real one.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import torch

SCORES = {0: 1.0, 1: 0.0}


def _timer(name, timing_raw):
    yield
    timing_raw[name] = timing_raw.get(name, 0) + 1.0


@contextmanager
def marked_timer(name, timing_raw, color=None):
    yield from sys.modules["verl.utils.profiler.performance"]._timer(name, timing_raw)


class Tracking:
    def __init__(self, project_name, experiment_name, default_backend="console", config=None):
        self.logged = []

    def log(self, data, step, backend=None):
        self.logged.append((step, dict(data)))


class PPOTrainer:
    def __init__(self, steps, update=lambda: None):
        path = "/models/Qwen/Qwen2.5-0.5B"
        model = SimpleNamespace(path=path)
        self.config = SimpleNamespace(
            actor_rollout_ref=SimpleNamespace(model=model), algorithm=SimpleNamespace(adv_estimator="grpo")
        )
        self.steps, self.update, self.global_steps = steps, update, 0

    def fit(self, agent_loop_manager):
        self.logger = Tracking("p", "e", config={"trainer": {"lr": 0.1}})
        self.global_steps += 1
        while self.global_steps <= self.steps:
            timing_raw = {}
            with marked_timer("step", timing_raw):
                for part in ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights"):
                    with marked_timer(part, timing_raw, color="red"):
                        if part == "update_actor":
                            self.update()
            self.logger.log({"critic/score/mean": 0.25, "timing_s/gen": 1.0}, step=self.global_steps)
            self.global_steps += 1

    def _submit_batch_to_rollout(self, batch):
        return len(batch["uid"])


class ReplayBuffer:
    def __init__(self):
        self.pending_keys = {"train": {"p"}}
        self.running_keys = {"train": {"r1", "r2"}}
        self.finished_keys = {"train": {"u1", "later"}}
        self.failure_keys = {"train": set()}

    def _materialize_batch(self, partition_id, selected_prompt_uids, partition_snapshot):
        return list(selected_prompt_uids)


class RayPPOTrainer(PPOTrainer):
    pass


def compute_advantage_for_multi_trajectories(data, batch_keys, adv_estimator):
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    data.batch = {"advantages": mask * torch.tensor([[0.5], [-0.5]]), "response_mask": mask}
    return data


class AgentLoopWorker:
    def __init__(self, client):
        self.client = client

    async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, trace=True, **kwargs):
        output = await self.client.generate("request", prompt_ids=[1, 2, 3], sampling_params=sampling_params)
        if agent_name == "tool_agent":
            loop = sys.modules["verl.experimental.agent_loop.tool_agent_loop"].ToolAgentLoop()
            await loop._call_tool(SimpleNamespace(name="search"), {}, None)
        result = SimpleNamespace(reward_score=None, extra_fields={}, response_ids=output.token_ids)
        await self._compute_score([result], kwargs=kwargs)
        return result

    async def _compute_score(self, outputs, kwargs):
        outputs[-1].reward_score = SCORES[kwargs["session_id"]]
        outputs[-1].extra_fields["reward_extra_info"] = {"acc": SCORES[kwargs["session_id"]], "note": "text"}


class ToolAgentLoop:
    async def _call_tool(self, tool_call, tools_kwargs, agent_data):
        return tool_call.name


class LLMServerClient:
    def __init__(self, tokens=2):
        rollout = SimpleNamespace(name="vllm", response_length=4)
        model = SimpleNamespace(path="/models/Qwen/Qwen2.5-0.5B")
        self.config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(model=model, rollout=rollout))
        self.tokens = tokens

    async def generate(self, request_id, *, prompt_ids, sampling_params, **kwargs):
        extra = {"global_steps": 3, "num_cached_tokens": 1}
        return SimpleNamespace(token_ids=[7] * self.tokens, stop_reason="completed", extra_fields=extra)


_MODULES = {
    "verl.utils.profiler.performance": (_timer,),
    "verl.utils.tracking": (Tracking,),
    "verl.trainer.ppo.ray_trainer": (RayPPOTrainer,),
    "verl.trainer.ppo.v1.trainer_base": (PPOTrainer,),
    "verl.trainer.ppo.v1.replay_buffer": (ReplayBuffer,),
    "verl.trainer.ppo.v1.utils": (compute_advantage_for_multi_trajectories,),
    "verl.experimental.agent_loop.agent_loop": (AgentLoopWorker,),
    "verl.experimental.agent_loop.tool_agent_loop": (ToolAgentLoop,),
    "verl.workers.rollout.llm_server": (LLMServerClient,),
}


def modules() -> dict[str, ModuleType]:
    """The modules, by name, that hold them."""
    found = {}
    for name, contents in _MODULES.items():
        found[name] = module = ModuleType(name)
        for one in contents:
            setattr(module, one.__name__, one)
    return found
