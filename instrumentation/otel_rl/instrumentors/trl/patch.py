"""Wrappers of ``trl``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.trl import async_samples, profiling, tools
from otel_rl.instrumentors.trl.methods import MODULES
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.instrumentors.trl.rewards import scores
from otel_rl.instrumentors.trl.samples import samples
from otel_rl.semconv import metrics, spans
from otel_rl.training import systems, trainer_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.training.phases import PhaseHandle

SYSTEM = "trl"

#: Class name without its suffix -> algorithm, where lower-casing the name does not say it.
_ALGORITHMS = {"AsyncGRPO": "grpo", "Reward": "reward_modeling", "AsyncDistillation": "distillation", "IWOPD": "iw_opd"}
_SUFFIX = re.compile(r"(Trainer|Config|TrainingArguments)$")
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])")
_PHASES = {
    definition.type.removeprefix("rl."): definition
    for definition in vars(spans).values()
    if hasattr(definition, "type")
}


def register_system(module: ModuleType, patches: Patches) -> None:
    """Trainers and configurations of TRL name the system and the algorithm of the process."""
    systems.register(module.__name__, SYSTEM, getattr(module, "__version__", None), algorithm_of)
    patches.on_restore(lambda: systems.unregister(SYSTEM))


def algorithm_of(kind: type) -> str | None:
    """Return the algorithm of a trainer class of TRL or of its configuration class; None for bases that have none.

    >>> from trl import GRPOConfig
    >>> algorithm_of(GRPOConfig)
    'grpo'
    """
    name = _SUFFIX.sub("", kind.__name__)
    if kind.__name__.startswith("_") or name in (kind.__name__, "", "Base"):
        return None
    return _ALGORITHMS.get(name) or _WORD_START.sub("_", name).lower()


def patch_profiling(module: ModuleType, patches: Patches) -> None:
    """All trainers profile their parts with this class, looked up by ``with`` on the class."""
    patches.replace(module, "ProfilingContext.__enter__", profiling.entering, required=True)
    patches.replace(module, "ProfilingContext.__exit__", profiling.leaving, required=True)


def patch_vllm_generation(module: ModuleType, patches: Patches) -> None:
    """Patch the client of the engine; several trainers call it outside of a profiling context."""
    patches.observe(module, "VLLMGeneration.sync_weights", begin=_begin_sync, end=_end_sync, required=True)
    patches.observe(
        module, "VLLMGeneration.generate", begin=_beginning(spans.RL_GENERATE), end=_end_phase, required=True
    )


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


def patch_async_grpo_trainer(module: ModuleType, patches: Patches) -> None:
    """``AsyncGRPOTrainer`` trains on samples that another process makes."""
    patch_methods(module, patches)
    # Not in every supported version.
    patches.observe(module, "DataCollatorForRollout._log_metrics", after=async_samples.taken)


def patch_methods(module: ModuleType, patches: Patches) -> None:
    """Trainers whose phases are single methods, see ``methods``."""
    for kind, phases in MODULES[module.__name__].items():
        trainer = getattr(module, kind, None)
        for phase, methods in phases.items():
            known = [method for method in methods if hasattr(trainer, method)]
            for method in known or methods[:1]:
                _patch_method(module, f"{kind}.{method}", _PHASES[phase], patches)


def _patch_method(module: ModuleType, name: str, phase: SpanDefinition, patches: Patches) -> None:
    begin = _begin_sync if phase is spans.RL_SYNC else _beginning(phase)
    end = _end_sync if phase is spans.RL_SYNC else _end_phase
    after = _calculated if phase is spans.RL_REWARD else None
    patches.observe(module, name, begin=begin, end=end, after=after, required=True)


def _patch_online_trainer(module: ModuleType, trainer: str, patches: Patches) -> None:
    _observe_sampling(module, trainer, patches, required=True)
    patches.observe(module, f"{trainer}._calculate_rewards", after=_calculated, required=True)
    name = f"{trainer}._generate_and_score_completions"
    patches.observe(module, name, begin=_begin_environments, end=_end_phase, after=_scored, required=True)


def _observe_sampling(module: ModuleType, trainer: str, patches: Patches, *, required: bool) -> None:
    name, begin = f"{trainer}._generate", _beginning(spans.RL_SAMPLE)
    patches.observe(module, name, begin=begin, end=_end_phase, after=_sampled, required=required)


def _observe_tools(module: ModuleType, trainer: str, patches: Patches) -> None:
    # Not in every supported version.
    patches.observe(module, f"{trainer}._tool_call_loop", begin=_watch_tools, end=_stop_watching)


def _beginning(phase: SpanDefinition) -> Callable[..., PhaseHandle | None]:
    def begin(*_: Any, **__: Any) -> PhaseHandle | None:
        return trainer_loop.current().open(phase, scope)

    return begin


def _end_phase(phase: PhaseHandle, _: Any, error: BaseException | None) -> None:
    phase.end(error)


def _begin_sync(*_: Any, **__: Any) -> tuple[PhaseHandle | None, PhaseHandle | None]:
    """Begin the transfer: it is all of the phase, or, where a profiling context has opened the phase, a part of it."""
    loop = trainer_loop.current()
    return loop.open(spans.RL_SYNC, scope), loop.open(spans.RL_WEIGHT_SYNC, scope)


def _end_sync(opened: tuple[PhaseHandle | None, PhaseHandle | None], _: Any, error: BaseException | None) -> None:
    phase, transfer = opened
    for opened_phase in (transfer, phase):
        if opened_phase is not None:
            opened_phase.end(error)


def _begin_environments(trainer: Any, *_: Any, **__: Any) -> PhaseHandle | None:
    """Environments are made and reset before the trainer calls ``_generate``: sampling begins here."""
    if not getattr(trainer, "environment_factories", None):
        return None
    return trainer_loop.current().open(spans.RL_SAMPLE, scope)


def _sampled(result: Any, trainer: Any, prompts: Any, *_: Any, **__: Any) -> None:
    if getattr(trainer, "environment_factories", None):
        trainer_loop.current().end(spans.RL_SAMPLE)
    if scope.enabled and not trainer_loop.current().is_open(spans.RL_EVALUATE):
        scope.record(metrics.RL_SAMPLE_SAMPLES, len(prompts))
        samples.sampled(trainer, result, prompts)


def _calculated(result: Any, trainer: Any, *_: Any, **__: Any) -> None:
    scores.calculated(trainer, result)


def _scored(result: Any, trainer: Any, *_: Any, **__: Any) -> None:
    scores.scored()
    samples.scored(trainer, result, scores.take())


def _watch_tools(trainer: Any, *_: Any, **__: Any) -> tools.Watching | None:
    watching = tools.watched(trainer)
    if watching is not None:
        watching.__enter__()
    return watching


def _stop_watching(watching: tools.Watching, _: Any, error: BaseException | None) -> None:
    watching.__exit__(None, error, None)
    samples.tool_errors = watching.failures
