"""verl's rollout server and its adapter on the CPU: a Ray actor that samples with Hugging Face's model."""

from __future__ import annotations

import asyncio
import os

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator


class CPUServer:
    """One replica."""

    def __init__(self, config, model_path, replica_rank):
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.config, self.replica_rank, self.global_steps = config, replica_rank, None
        self.model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).eval()
        self.lock, self.open = asyncio.Lock(), asyncio.Event()
        self.open.set()
        self.generator = torch.Generator().manual_seed(1234 + replica_rank)

    def address(self):
        return f"127.0.0.1:{9000 + self.replica_rank}"

    async def wake_up(self, tags=None): ...
    async def sleep(self): ...
    async def clear_kv_cache(self): ...
    async def release_kv_cache(self): ...
    async def resume_kv_cache(self): ...
    async def start_profile(self, **kwargs): ...
    async def stop_profile(self): ...

    async def set_global_steps(self, step):
        self.global_steps = step

    async def abort_all_requests(self, reject_request=False):
        self.open.clear()
        return {"aborted_count": 0, "request_ids": []}

    async def resume_generation(self):
        self.open.set()

    async def load_weights(self, state, global_steps=None):
        async with self.lock:
            tensors = {name: torch.as_tensor(value).float() for name, value in state.items()}
            self.model.load_state_dict(tensors, strict=False)
            if global_steps is not None:
                self.global_steps = global_steps

    async def generate(self, prompt_ids, sampling_params, request_id, **kwargs):
        await self.open.wait()
        async with self.lock:
            return await asyncio.to_thread(self._generate, list(prompt_ids), dict(sampling_params))

    @torch.no_grad()
    def _generate(self, prompt, params):
        limit = params.get("max_tokens") or params.get("max_new_tokens") or self.config.response_length
        temperature = params.get("temperature", 1.0) or 0.0
        ids, out, logs, past = torch.tensor([prompt]), [], [], None
        for _ in range(limit):
            result = self.model(ids if past is None else ids[:, -1:], past_key_values=past, use_cache=True)
            past = result.past_key_values
            logp = torch.log_softmax(result.logits[0, -1].float() / (temperature or 1.0), -1)
            token = (
                int(torch.multinomial(logp.exp(), 1, generator=self.generator)) if temperature else int(logp.argmax())
            )
            out.append(token)
            logs.append(float(logp[token]))
            ids = torch.cat([ids, torch.tensor([[token]])], 1)
            if token == self.model.config.eos_token_id:
                break
        extra = {"global_steps": self.global_steps, "num_cached_tokens": 0}
        return TokenOutput(token_ids=out, log_probs=logs, stop_reason="completed", num_preempted=0, extra_fields=extra)


class CPUReplica(RolloutReplica):
    """Starts the server."""

    async def launch_servers(self):
        options = {"name": f"cpu_server_{self.replica_rank}_0", "num_cpus": 0, "max_concurrency": self.max_concurrency}
        server = (
            ray.remote(CPUServer)
            .options(**options)
            .remote(config=self.config, model_path=self.model_config.path, replica_rank=self.replica_rank)
        )
        self.servers = [server]
        self._server_handle, self._server_address = server, await server.address.remote()


class ServerAdapter(BaseRollout):
    """Gives the trainer's weights to the server, by the object store."""

    def __init__(self, config, model_config, device_mesh, replica_rank=-1):
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        world = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        world *= self.config.pipeline_model_parallel_size
        self.replica_rank = rank // world if replica_rank == -1 else replica_rank
        self.rollout_rank, self.sleep_level = rank % world, 2

    async def resume(self, tags): ...
    async def release(self): ...

    async def update_weights(self, weights, global_steps=None, wire_format="named_tensors", **kwargs):
        state = {name: tensor.detach().float().cpu().numpy() async for name, tensor in ensure_async_iterator(weights)}
        if self.rollout_rank == 0:
            await ray.get_actor(f"cpu_server_{self.replica_rank}_0").load_weights.remote(state, global_steps)
