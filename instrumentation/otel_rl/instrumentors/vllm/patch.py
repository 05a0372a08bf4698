"""Wrappers of ``vllm``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.instrumentors.vllm import async_requests, batches, operations, sync_check
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import run_parts

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

#: Methods of ``LLM`` that generate, and their operations; required where every supported version has them.
_GENERATES = (
    ("generate", GenAiOperationNameValues.TEXT_COMPLETION, True),
    ("chat", GenAiOperationNameValues.CHAT, True),
    ("wait_for_completion", GenAiOperationNameValues.TEXT_COMPLETION, False),
)
_TRANSFER = (
    "init_weight_transfer_engine",
    "start_weight_update",
    "start_draft_weight_update",
    "update_weights",
    "finish_weight_update",
    "update_weight_version",
)
#: Methods that operate on weights, memory and caches, by class; versions have more or fewer of them.
_OPERATIONS = {
    "LLM": ("sleep", "wake_up", "reset_prefix_cache", "release_kv_cache_memory", *_TRANSFER),
    "LLMEngine": ("sleep", "wake_up", "reset_prefix_cache", "release_kv_cache_memory"),
    "AsyncLLM": ("sleep", "wake_up", "reset_prefix_cache", "pause_generation", "resume_generation", *_TRANSFER),
}


def patch_llm(module: ModuleType, patches: Patches) -> None:
    """``LLM`` runs a batch of requests per call."""
    patches.observe(module, "LLM.__init__", **run_parts.following(Part.ENGINE), required=True)
    sync_check.watch(patches)
    for method, operation, required in _GENERATES:
        begin = batches.beginning(operation)
        patches.observe(module, f"LLM.{method}", begin=begin, end=batches.end, required=required)
    _observe_operations(module, "LLM", patches)
    patches.observe(module, "LLM.collective_rpc", begin=operations.begin_rpc, end=operations.end, required=True)
    patches.observe(module, "LLM.apply_model", begin=operations.begin_apply, end=operations.end)


def patch_llm_engine(module: ModuleType, patches: Patches) -> None:
    """``LLMEngine`` is inside of ``LLM``; some programs operate on it directly."""
    _observe_operations(module, "LLMEngine", patches)
    patches.observe(module, "LLMEngine.collective_rpc", begin=operations.begin_rpc, end=operations.end, required=True)
    patches.observe(module, "LLMEngine.apply_model", begin=operations.begin_apply, end=operations.end)


def patch_async_llm(module: ModuleType, patches: Patches) -> None:
    """``AsyncLLM`` runs one request per call of ``generate``; servers use it too."""
    begin, each, end = async_requests.begin, async_requests.each, async_requests.end
    patches.observe(module, "AsyncLLM.generate", begin=begin, each=each, end=end, required=True)
    patches.replace(module, "AsyncLLM.add_request", async_requests.add_request, required=True)
    _observe_operations(module, "AsyncLLM", patches)
    patches.observe(module, "AsyncLLM.collective_rpc", begin=operations.begin_rpc, end=operations.end, required=True)


def _observe_operations(module: ModuleType, owner: str, patches: Patches) -> None:
    for name in _OPERATIONS[owner]:
        patches.observe(module, f"{owner}.{name}", begin=operations.beginning(name), end=operations.end)
