"""Wrappers of Lightning's trainer and loops: where steps and phases begin and end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock
from otel_rl.instrumentors.lightning.loop import LightningLoop, current
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import Scope, deferral, run_parts
from otel_rl.training import systems, trainer_loop
from otel_rl.training.trainer_loop import in_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.training.phases import PhaseHandle

    Hook = Callable[[LightningLoop, Any], None]

SYSTEM = "lightning"
_PACKAGES = ("lightning", "pytorch_lightning")
scope = Scope("lightning")


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer. ``_run`` is where it works, in the process that it may have started for that."""
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, "Trainer.__init__", before=_identify, **run_parts.following(Part.TRAINER), required=True)
    patches.observe(module, "Trainer._run", begin=_run_begins, end=LightningLoop.train_ended, required=True)
    patches.replace(module, "Trainer.save_checkpoint", in_phase(spans.RL_CHECKPOINT, scope), required=True)


def patch_training_epoch_loop(module: ModuleType, patches: Patches) -> None:
    """Follow what the loop has called around each request for a batch, for its own profiler."""
    patches.observe(module, "_TrainingEpochLoop._on_before_fetch", before=_wait_begins, required=True)
    patches.observe(module, "_TrainingEpochLoop._on_after_fetch", before=_wait_ended, required=True)


def patch_evaluation_loop(module: ModuleType, patches: Patches) -> None:
    """Follow validation, also within ``fit``, and tests."""
    patches.observe(module, "_EvaluationLoop.run", begin=_evaluation_begins, end=_evaluation_ended, required=True)


def patch_prediction_loop(module: ModuleType, patches: Patches) -> None:
    """Follow predictions."""
    patches.observe(module, "_PredictionLoop.run", begin=_evaluation_begins, end=_evaluation_ended, required=True)


def patch_call(module: ModuleType, patches: Patches) -> None:
    """All callbacks, and all calls of the strategy, pass these functions."""
    patches.observe(module, "_call_callback_hooks", before=_hook_begins, required=True)
    patches.observe(module, "_call_strategy_hook", begin=_training_step_begins, end=_training_step_ended, required=True)


def patch_optimizer(module: ModuleType, patches: Patches) -> None:
    """Patch what the trainer, and a program that optimizes itself, has in place of an optimizer."""
    patches.observe(module, "LightningOptimizer.step", begin=_optimizer_begins, end=_optimizer_ended, required=True)


# -- the trainer -------------------------------------------------------------------------------------------------------


def _identify(trainer: Any, *_: Any, **__: Any) -> None:
    bases = (base.__module__.partition(".")[0] for base in type(trainer).__mro__)
    package = next((base for base in bases if base in _PACKAGES), SYSTEM)
    version = getattr(sys.modules.get(package), "__version__", None)
    systems.configured(type(trainer), SYSTEM, version, RlRoleValues.TRAINER)


def _run_begins(trainer: Any, model: Any, *_: Any, **__: Any) -> LightningLoop | None:
    if not scope.enabled or trainer.state.fn != "fit":
        return None
    named = {attributes.RL_MODEL_NAME: type(model).__name__}
    run_parts.describe(named)
    loop = LightningLoop(named)
    loop.enter()
    loop.prepares_since = clock.now()
    return loop


# -- data --------------------------------------------------------------------------------------------------------------


def _wait_begins(*_: Any, **__: Any) -> None:
    loop = current()
    if loop is None:
        return
    _end_preparing(loop)
    loop.waits_since = deferral.now()


def _wait_ended(*_: Any, **__: Any) -> None:
    loop = current()
    if loop is not None and loop.is_in_batch and loop.step is not None:
        # A `training_step` that is given the iterator asks for batches itself.
        since, loop.waits_since = loop.waits_since, None
        loop.begin_step(loop.step.iteration, scope, since)


def _end_preparing(loop: LightningLoop) -> None:
    if loop.prepares_since is not None:
        run_parts.add(Part.TRAINER, loop.prepares_since)
        loop.prepares_since = None


# -- phases ------------------------------------------------------------------------------------------------------------


def _evaluation_begins(*_: Any, **__: Any) -> tuple[PhaseHandle | None, LightningLoop | None]:
    loop = current()
    prepares = loop if loop is not None and loop.prepares_since is not None else None
    if prepares is not None:
        # The batches of validation that are tried before training.
        _end_preparing(prepares)
    return trainer_loop.current().open(spans.RL_EVALUATE, scope), prepares


def _evaluation_ended(
    state: tuple[PhaseHandle | None, LightningLoop | None], _: Any, error: BaseException | None
) -> None:
    phase, prepares = state
    if phase is not None:
        phase.end(error)
    if prepares is not None:
        prepares.prepares_since = clock.now()


def _training_step_begins(trainer: Any, hook_name: str, *_: Any, **__: Any) -> LightningLoop | None:
    loop = current() if hook_name == "training_step" else None
    if loop is not None:
        # That of a closure which an optimizer calls several times.
        loop.end(spans.RL_OPTIMIZER)
        loop.open(spans.RL_FORWARD, scope)
        loop.is_in_manual_step = not trainer.lightning_module.automatic_optimization
    return loop


def _training_step_ended(loop: LightningLoop, _: Any, error: BaseException | None) -> None:
    loop.is_in_manual_step = False
    loop.end(spans.RL_FORWARD, error)


def _optimizer_begins(*_: Any, **__: Any) -> LightningLoop | None:
    return current()


def _optimizer_ended(loop: LightningLoop, _: Any, error: BaseException | None) -> None:
    loop.end(spans.RL_OPTIMIZER, error)
    _go_on_forward(loop)


def _go_on_forward(loop: LightningLoop) -> None:
    """Take what a ``training_step`` does between its own calls of backward and of optimizers as its forward pass."""
    if loop.is_in_manual_step:
        loop.open(spans.RL_FORWARD, scope)


# -- hooks of the trainer ----------------------------------------------------------------------------------------------


def _hook_begins(trainer: Any, hook_name: str, *_: Any, **__: Any) -> None:
    hook = _BEFORE.get(hook_name)
    if hook is None:
        return
    loop = current()
    if loop is not None:
        hook(loop, trainer)


def _batch_begins(loop: LightningLoop, trainer: Any) -> None:
    since, loop.waits_since = loop.waits_since, None
    loop.begin_step(trainer.fit_loop.epoch_loop._batches_that_stepped + 1, scope, since)  # noqa: SLF001 - see the package
    loop.is_in_batch = True


def _batch_ends(loop: LightningLoop, trainer: Any) -> None:
    loop.is_in_batch = False
    loop.end(spans.RL_TRAIN)
    if trainer.is_global_zero and not trainer.fit_loop.epoch_loop._should_accumulate():  # noqa: SLF001 - as the loop asks it
        loop.count_step(scope, 0)


def _evaluation_ends(loop: LightningLoop, _: Any) -> None:
    # Before what saves the model since its validation was good.
    loop.end(spans.RL_EVALUATE)


def _backward_begins(loop: LightningLoop, _: Any) -> None:
    loop.end(spans.RL_FORWARD)
    loop.open(spans.RL_BACKWARD, scope)


def _backward_ends(loop: LightningLoop, _: Any) -> None:
    loop.end(spans.RL_BACKWARD)
    _go_on_forward(loop)


def _optimizing_begins(loop: LightningLoop, _: Any) -> None:
    loop.end(spans.RL_FORWARD)
    loop.open(spans.RL_OPTIMIZER, scope)


#: Before the program's callbacks.
_BEFORE: Mapping[str, Hook] = {
    "on_train_batch_start": _batch_begins,
    "on_train_batch_end": _batch_ends,
    "on_before_backward": _backward_begins,
    "on_after_backward": _backward_ends,
    "on_before_optimizer_step": _optimizing_begins,
    "on_validation_end": _evaluation_ends,
}
