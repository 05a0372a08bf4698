"""Wrappers of ``trl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.trl import profiling, tools
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.instrumentors.trl.rewards import scores
from otel_rl.semconv import metrics, spans
from otel_rl.training.trace import OpenPhase, in_phase, trace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_profiling(module: ModuleType, patches: Patches) -> None:
    """All trainers profile their parts with this class, looked up by ``with`` on the class."""
    patches.observe(module, "ProfilingContext.__enter__", after=_enter, required=True)
    patches.observe(module, "ProfilingContext.__exit__", before=_leave, required=True)


def patch_vllm_generation(module: ModuleType, patches: Patches) -> None:
    """The part of the trainer's ``sync_weights`` in which weights travel to the engine."""
    patches.replace(module, "VLLMGeneration.sync_weights", in_phase(spans.RL_WEIGHT_SYNC, scope), required=True)


def patch_grpo_trainer(module: ModuleType, patches: Patches) -> None:
    """``GRPOTrainer`` samples, scores and calls tools."""
    _patch_online_trainer(module, "GRPOTrainer", patches)
    _observe_tools(module, "GRPOTrainer", patches)


def patch_rloo_trainer(module: ModuleType, patches: Patches) -> None:
    """``RLOOTrainer`` samples and scores with methods of the same names."""
    _patch_online_trainer(module, "RLOOTrainer", patches)


def patch_distillation_trainer(module: ModuleType, patches: Patches) -> None:
    """``DistillationTrainer`` samples from the student, and may give it tools; a teacher scores."""
    _observe_sampling(module, "DistillationTrainer", patches, required=False)
    _observe_tools(module, "DistillationTrainer", patches)


def _patch_online_trainer(module: ModuleType, trainer: str, patches: Patches) -> None:
    _observe_sampling(module, trainer, patches, required=True)
    patches.observe(module, f"{trainer}._calculate_rewards", after=_calculated, required=True)
    patches.observe(module, f"{trainer}._generate_and_score_completions", after=_scored, required=True)


def _observe_sampling(module: ModuleType, trainer: str, patches: Patches, *, required: bool) -> None:
    name = f"{trainer}._generate"
    patches.observe(module, name, begin=_begin_sampling, end=_end_phase, after=_sampled, required=required)


def _observe_tools(module: ModuleType, trainer: str, patches: Patches) -> None:
    # Not in every supported version.
    patches.observe(module, f"{trainer}._tool_call_loop", begin=_watch_tools, end=_stop_watching)


def _enter(_: Any, context: Any) -> None:
    profiling.enter(context)


def _leave(context: Any, _: Any, error: Any, __: Any) -> None:
    profiling.leave(context, error)


def _begin_sampling(*_: Any, **__: Any) -> OpenPhase | None:
    return trace.open(spans.RL_SAMPLE, scope)


def _end_phase(phase: OpenPhase, _: Any, error: BaseException | None) -> None:
    phase.end(error)


def _sampled(_: Any, __: Any, prompts: Any, *___: Any, **____: Any) -> None:
    if scope.enabled and not trace.is_open(spans.RL_EVALUATE):
        scope.record(metrics.RL_SAMPLE_SAMPLES, len(prompts))


def _calculated(result: Any, trainer: Any, _: Any, prompts: Any, *__: Any, **___: Any) -> None:
    scores.calculated(trainer, len(prompts), result)


def _scored(*_: Any, **__: Any) -> None:
    scores.scored()


def _watch_tools(trainer: Any, *_: Any, **__: Any) -> AbstractContextManager[None] | None:
    watching = tools.watched(trainer)
    if watching is not None:
        watching.__enter__()
    return watching


def _stop_watching(watching: AbstractContextManager[None], _: Any, error: BaseException | None) -> None:
    watching.__exit__(None, error, None)
