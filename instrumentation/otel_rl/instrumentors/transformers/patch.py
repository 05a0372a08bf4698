"""Wrappers of ``transformers`` and ``accelerate``: where steps and phases begin and end, and what is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.instrumentors.transformers.identity import identify
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard
from otel_rl.training.scalars import TrainerScalars
from otel_rl.training.trace import OpenPhase, in_phase, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Hook = Callable[[Any, Mapping[str, Any]], None]

scope = Scope("transformers")
scalars = TrainerScalars(scope)

#: Methods of the trainer that are phases.
_PHASES = {
    "compute_loss": spans.RL_FORWARD,
    "evaluate": spans.RL_EVALUATE,
    "predict": spans.RL_EVALUATE,
    "_save_checkpoint": spans.RL_CHECKPOINT,
}


def patch_training_args(module: ModuleType, patches: Patches) -> None:
    """The configuration is built long before the trainer, and before the process group: the earliest sign of both."""
    patches.observe(module, "TrainingArguments.__post_init__", before=_identify, required=True)


def patch_trainer_callback(module: ModuleType, patches: Patches) -> None:
    """Every event of the trainer passes ``call_event``."""
    patches.observe(module, "CallbackHandler.call_event", before=_before_event, after=_after_event, required=True)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Subclasses reach these methods by ``super()``; where one does not, the phase is missing and nothing else."""
    patches.on_restore(trace.finish_step)
    patches.observe(module, "Trainer.__init__", before=_identify, required=True)
    patches.observe(module, "Trainer.train", begin=_always, end=_finish_step, required=True)
    patches.observe(module, "Trainer.get_batch_samples", begin=_begin_step, end=_end_phase, required=True)
    for method, phase in _PHASES.items():
        patches.replace(module, f"Trainer.{method}", in_phase(phase, scope), required=True)


def patch_accelerator(module: ModuleType, patches: Patches) -> None:
    """All trainers here call backward through accelerate."""
    patches.replace(module, "Accelerator.backward", in_phase(spans.RL_BACKWARD, scope), required=True)


def _identify(configured: Any, *_: Any, **__: Any) -> None:
    system, algorithm = identify(type(configured))
    process_identity.update(
        system=system,
        algorithm=settings.current().algorithm or algorithm,
        role=process_identity.current().role or RlRoleValues.TRAINER,
    )


def _begin_step(trainer: Any, *_: Any, **__: Any) -> OpenPhase | None:
    trace.begin_step(trainer.state.global_step + 1, scope)
    return trace.open(spans.RL_DATA_WAIT, scope)


def _end_phase(phase: OpenPhase, _: Any, error: BaseException | None) -> None:
    phase.end(error)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _finish_step(_: Any, __: Any, error: BaseException | None) -> None:
    trace.finish_step(error)


def _before_event(_: Any, event: str, __: Any, state: Any, *___: Any, **details: Any) -> None:
    _run_hook(_BEFORE, event, state, details)


def _after_event(_: Any, __: Any, event: str, ___: Any, state: Any, *____: Any, **details: Any) -> None:
    _run_hook(_AFTER, event, state, details)


def _run_hook(hooks: Mapping[str, Hook], event: str, state: Any, details: Mapping[str, Any]) -> None:
    hook = hooks.get(event)
    if hook is not None and scope.enabled:
        with guard(f"transformers.{event}"):
            hook(state, details)


def _train_begins(state: Any, _: Mapping[str, Any]) -> None:
    scalars.training_begins(state)


def _step_begins(state: Any, _: Mapping[str, Any]) -> None:
    trace.begin_step(state.global_step + 1, scope)


def _optimizer_begins(_: Any, __: Mapping[str, Any]) -> None:
    trace.open(spans.RL_OPTIMIZER, scope)


def _optimizer_ends(_: Any, __: Mapping[str, Any]) -> None:
    trace.end(spans.RL_OPTIMIZER)


def _step_ends(state: Any, _: Mapping[str, Any]) -> None:
    trace.end(spans.RL_TRAIN)
    scalars.step_ends(state)


def _logged(state: Any, details: Mapping[str, Any]) -> None:
    scalars.logged(state, details.get("logs") or {})


#: Before the program's callbacks: some change what they are given (one removes a key from the logs).
_BEFORE: Mapping[str, Hook] = {
    "on_train_begin": _train_begins,
    "on_step_begin": _step_begins,
    "on_optimizer_step": _optimizer_ends,
    "on_step_end": _step_ends,
    "on_log": _logged,
}
_AFTER: Mapping[str, Hook] = {"on_pre_optimizer_step": _optimizer_begins}
