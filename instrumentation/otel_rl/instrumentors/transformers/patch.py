"""Wrappers of ``transformers`` and ``accelerate``: where steps and phases begin and end, and what is logged."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.instrumentors.transformers.identity import identify
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard
from otel_rl.training.scalars import TrainerScalars
from otel_rl.training.trace import in_phase, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]
    Hook = Callable[[Any, Mapping[str, Any]], None]

scope = Scope("transformers")
scalars = TrainerScalars(scope)


def patch_training_args(module: ModuleType, patches: Patches) -> None:
    """The configuration is built long before the trainer, and before the process group: the earliest sign of both."""
    patches.replace(module.TrainingArguments, "__post_init__", _identifying)


def patch_trainer_callback(module: ModuleType, patches: Patches) -> None:
    """Every event of the trainer passes ``call_event``."""
    patches.replace(module.CallbackHandler, "call_event", _observing_events)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Subclasses reach these methods by ``super()``; where one does not, the phase is missing and nothing else."""
    trainer = module.Trainer
    patches.replace(trainer, "__init__", _identifying)
    patches.replace(trainer, "train", _finishing)
    patches.replace(trainer, "get_batch_samples", _beginning_step)
    patches.replace(trainer, "compute_loss", in_phase(spans.RL_FORWARD, scope))
    patches.replace(trainer, "evaluate", in_phase(spans.RL_EVALUATE, scope))
    patches.replace(trainer, "predict", in_phase(spans.RL_EVALUATE, scope))
    patches.replace(trainer, "_save_checkpoint", in_phase(spans.RL_CHECKPOINT, scope))


def patch_accelerator(module: ModuleType, patches: Patches) -> None:
    """All trainers here call backward through accelerate."""
    patches.replace(module.Accelerator, "backward", in_phase(spans.RL_BACKWARD, scope))


def stop() -> None:
    """After the originals are back: close what is open."""
    trace.finish_step()


def _identifying(original: Function) -> Function:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard("transformers.identify"):
            system, algorithm = identify(type(self))
            process_identity.update(
                system=system,
                algorithm=settings.current().algorithm or algorithm,
                role=process_identity.current().role or RlRoleValues.TRAINER,
            )
        return original(self, *args, **kwargs)

    return method


def _beginning_step(original: Function) -> Function:
    @functools.wraps(original)
    def get_batch_samples(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard("transformers.begin_step"):
            trace.begin_step(self.state.global_step + 1, scope)
        with trace.phase(spans.RL_DATA_WAIT, scope):
            return original(self, *args, **kwargs)

    return get_batch_samples


def _finishing(original: Function) -> Function:
    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            with guard("transformers.finish"):
                trace.finish_step(error)
            raise
        with guard("transformers.finish"):
            trace.finish_step()
        return result

    return train


def _observing_events(original: Function) -> Function:
    @functools.wraps(original)
    def call_event(self: Any, event: str, args: Any, state: Any, *rest: Any, **kwargs: Any) -> Any:
        _run_hook(_BEFORE, event, state, kwargs)
        result = original(self, event, args, state, *rest, **kwargs)
        _run_hook(_AFTER, event, state, kwargs)
        return result

    return call_event


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
