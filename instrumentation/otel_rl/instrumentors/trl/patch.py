"""Wrappers of ``trl``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.trl import profiling, tools
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.instrumentors.trl.rewards import scores
from otel_rl.semconv import metrics, spans
from otel_rl.telemetry import guard
from otel_rl.training.trace import in_phase, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]


def patch_profiling(module: ModuleType, patches: Patches) -> None:
    """All trainers profile their parts with this class, looked up by ``with`` on the class."""
    patches.replace(module.ProfilingContext, "__enter__", _entering)
    patches.replace(module.ProfilingContext, "__exit__", _leaving)


def patch_vllm_generation(module: ModuleType, patches: Patches) -> None:
    """The part of the trainer's ``sync_weights`` in which weights travel to the engine."""
    patches.replace(module.VLLMGeneration, "sync_weights", in_phase(spans.RL_WEIGHT_SYNC, scope))


def patch_grpo_trainer(module: ModuleType, patches: Patches) -> None:
    """``GRPOTrainer`` samples, scores and calls tools."""
    _patch_online_trainer(module.GRPOTrainer, patches)
    patches.replace(module.GRPOTrainer, "_tool_call_loop", _watching_tools)


def patch_rloo_trainer(module: ModuleType, patches: Patches) -> None:
    """``RLOOTrainer`` samples and scores with methods of the same names."""
    _patch_online_trainer(module.RLOOTrainer, patches)


def patch_distillation_trainer(module: ModuleType, patches: Patches) -> None:
    """``DistillationTrainer`` samples from the student, and may give it tools; a teacher scores."""
    patches.replace(module.DistillationTrainer, "_generate", _sampling)
    patches.replace(module.DistillationTrainer, "_tool_call_loop", _watching_tools)


def _patch_online_trainer(trainer: type, patches: Patches) -> None:
    patches.replace(trainer, "_generate", _sampling)
    patches.replace(trainer, "_calculate_rewards", _reading_scores)
    patches.replace(trainer, "_generate_and_score_completions", _ending_scores)


def _entering(original: Function) -> Function:
    @functools.wraps(original)
    def enter(self: Any) -> Any:
        result = original(self)
        profiling.enter(self)
        return result

    return enter


def _leaving(original: Function) -> Function:
    @functools.wraps(original)
    def leave(self: Any, error_type: Any, error: Any, traceback: Any) -> Any:
        profiling.leave(self, error)
        return original(self, error_type, error, traceback)

    return leave


def _sampling(original: Function) -> Function:
    @functools.wraps(original)
    def generate(self: Any, prompts: Any, *args: Any, **kwargs: Any) -> Any:
        with trace.phase(spans.RL_SAMPLE, scope):
            result = original(self, prompts, *args, **kwargs)
        with guard("trl.samples"):
            if scope.enabled and not trace.is_open(spans.RL_EVALUATE):
                scope.record(metrics.RL_SAMPLE_SAMPLES, len(prompts))
        return result

    return generate


def _reading_scores(original: Function) -> Function:
    @functools.wraps(original)
    def calculate_rewards(self: Any, inputs: Any, prompts: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, inputs, prompts, *args, **kwargs)
        with guard("trl.rewards"):
            scores.calculated(self, len(prompts), result)
        return result

    return calculate_rewards


def _ending_scores(original: Function) -> Function:
    @functools.wraps(original)
    def generate_and_score(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with guard("trl.rewards"):
            scores.scored()
        return result

    return generate_and_score


def _watching_tools(original: Function) -> Function:
    @functools.wraps(original)
    def tool_call_loop(self: Any, *args: Any, **kwargs: Any) -> Any:
        watching = tools.watched(self)
        if watching is None:
            return original(self, *args, **kwargs)
        with watching:
            return original(self, *args, **kwargs)

    return tool_call_loop
