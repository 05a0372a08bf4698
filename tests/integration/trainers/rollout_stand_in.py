"""Stands for what TRL's asynchronous trainers talk to: a rollout worker, a receiver of weights, FlashAttention.

Worker and receiver are given to the trainers as TRL's own protocols say. The real ones need vLLM and CUDA:
``AsyncRolloutWorker.__init__`` asks for vLLM, ``WeightTransferClient.init_weight_transfer`` joins an NCCL group. Two
functions of TRL are replaced: ``packing._flash_attn`` loads a kernel for GPUs, ``get_peak_flops_per_device`` asks CUDA.
"""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Work = Callable[[str], None]

TOKENS = np.array([5, 6, 7, 8, 9, 2])
COMPLETED = np.array([0, 0, 0, 1, 1, 1])
GROUP = 4


class Worker:
    """A rollout worker that always has a sample of the newest policy; waiting for it takes ``work("data_wait")``."""

    def __init__(self, sample: Callable[[int, int], Any], work: Work) -> None:
        self._sample, self._work = sample, work
        self._taken = 0
        self._version = 0
        self.calls: list[str] = []
        self.rollout_buffer = self
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def update_model_version(self, model_version: int) -> None:
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None:
        raise AssertionError("the buffer is never empty")

    def get(self, timeout: float) -> Any:
        """As of a queue."""
        self._work("data_wait")
        self._taken += 1
        return self._sample(self._taken - 1, self._version)

    def qsize(self) -> int:
        return 1


class Receiver:
    """Receives the weights; that takes ``work("sync")``."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def init_weight_transfer(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        assert len(list(iterator)) > 1
        self._work("sync")

    def resume(self) -> None:
        pass

    def destroy(self) -> None:
        pass


def grpo_worker(work: Work) -> Worker:
    """For ``AsyncGRPOTrainer``."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=flash_attention)
    return Worker(_scored, work)


def distillation_worker(work: Work) -> Worker:
    """For ``AsyncDistillationTrainer``."""
    from trl.experimental.async_distillation import async_distillation_trainer

    async_distillation_trainer.get_peak_flops_per_device = lambda *_: None
    return Worker(_taught, work)


def _scored(number: int, version: int) -> Any:
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    return RolloutSample(
        prompt=[{"role": "user", "content": "What is 1?"}],
        completion=[{"role": "assistant", "content": "one"}],
        input_ids=TOKENS,
        completion_mask=COMPLETED,
        old_log_probs=np.full(len(TOKENS), -1.0, dtype=np.float32),
        advantage=1.0 if number % 2 else -1.0,
        model_version=version,
        group_id=number // GROUP,
        metrics={"reward": float(number % 2), "reward_std": 0.5},
    )


def _taught(number: int, version: int) -> Any:
    """The teacher knows two candidates for each position of the completion."""
    from trl.experimental.async_distillation.async_rollout_worker import RolloutSample

    unknown = (1 - COMPLETED).astype(bool)[:, None]
    candidates = np.stack([np.roll(TOKENS, -1), TOKENS], axis=1)
    return RolloutSample(
        prompt=[{"role": "user", "content": "What is 1?"}],
        completion=[{"role": "assistant", "content": "one"}],
        input_ids=TOKENS,
        completion_mask=COMPLETED,
        teacher_topk_ids=np.where(unknown, -1, candidates),
        teacher_topk_logprobs=np.where(unknown, -np.inf, np.full(candidates.shape, -1.0)).astype(np.float32),
        model_version=version,
        metrics={},
        teacher_id="default",
        prompt_id=number,
    )


def flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_bounds: torch.Tensor,
    key_bounds: torch.Tensor,
    *_: Any,
    softmax_scale: float | None = None,
    **__: Any,
) -> torch.Tensor:
    """``flash_attn_varlen_func`` of FlashAttention 3: the queries of a segment are the end of its keys."""
    found = []
    pairs = zip(query_bounds.diff().tolist(), key_bounds.diff().tolist(), strict=True)
    sizes = list(pairs)
    queries = query.split([own for own, _ in sizes])
    keys, values = (one.split([whole for _, whole in sizes]) for one in (key, value))
    for one, (own, whole), its_keys, its_values in zip(queries, sizes, keys, values, strict=True):
        seen = torch.ones(own, whole, dtype=torch.bool).tril(whole - own)
        parts = (part.transpose(0, 1) for part in (one, its_keys, its_values))
        attended = torch.nn.functional.scaled_dot_product_attention(
            *parts, attn_mask=seen, scale=softmax_scale, enable_gqa=True
        )
        found.append(attended.transpose(0, 1))
    return torch.cat(found)
