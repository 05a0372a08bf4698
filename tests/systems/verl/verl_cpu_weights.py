"""A checkpoint engine for verl's separate trainer on the CPU: weights go through a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileCheckpointEngine(CheckpointEngine):
    """One trainer writes, all rollout servers read; `folder` is in `checkpoint_engine.engine_kwargs.file`."""

    def __init__(self, bucket_size, folder, is_master=False):
        self.folder, self.rank = Path(folder), None

    def prepare(self):
        return {}

    @classmethod
    def build_topology(cls, actors, servers, metadata):
        return {"rank": list(range(actors))}, {"rank": list(range(actors, actors + servers))}

    def init_process_group(self, rank):
        self.rank = rank

    def finalize(self): ...

    def _file(self, global_steps):
        return self.folder / f"weights-{global_steps}.pt"

    async def send_weights(self, weights, global_steps=None):
        state = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        if self.rank == 0:
            self.folder.mkdir(exist_ok=True)
            written = self.folder / f"weights-{os.getpid()}"
            torch.save(state, written)
            written.replace(self._file(global_steps))

    async def receive_weights(self, global_steps=None):
        while not self._file(global_steps).exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        for name, tensor in torch.load(self._file(global_steps)).items():
            yield name, tensor
