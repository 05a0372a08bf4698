"""Wrappers of ``transformers`` and ``accelerate``: where steps and phases begin and end, and what is logged."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import clock
from otel_rl.instrumentors.transformers import details
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlCheckpointFormatValues as Format
from otel_rl.semconv.attributes import RlCheckpointOperationValues as Operation
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import Scope, deferral, guard, run_parts
from otel_rl.training import checkpoints, saved_checkpoints, systems, trainer_loop
from otel_rl.training.configuration import record_configuration
from otel_rl.training.scalars import Source, sink
from otel_rl.training.trainer_loop import TrainerLoop, in_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.checkpoints import Transfer
    from otel_rl.training.phases import PhaseHandle

    Hook = Callable[[TrainerLoop, Any], None]

SYSTEM = "transformers"
scope = Scope("transformers")

#: Methods of the trainer that are phases. A loss that a program computes in its own ``training_step`` is one too.
_PHASES = {
    "compute_loss": spans.RL_FORWARD,
    "evaluate": spans.RL_EVALUATE,
    "predict": spans.RL_EVALUATE,
}


def patch_training_args(module: ModuleType, patches: Patches) -> None:
    """Patch the configuration, the earliest sign of a trainer: it is built before the process group."""
    patches.observe(module, "TrainingArguments.__post_init__", before=_identify, required=True)


def patch_trainer_callback(module: ModuleType, patches: Patches) -> None:
    """Every event of the trainer passes ``call_event``."""
    patches.observe(module, "CallbackHandler.call_event", begin=_event_begins, end=_event_ended, required=True)


def patch_trainer(module: ModuleType, patches: Patches) -> None:
    """Patch the trainer.

    Subclasses reach these methods by ``super()``; where one does not, the phase is missing and nothing else.
    """
    patches.on_restore(trainer_loop.close_steps)
    patches.observe(module, "Trainer.__init__", before=_identify, **run_parts.following(Part.TRAINER), required=True)
    begin = partial(_training_begins, patches)
    patches.observe(module, "Trainer.train", begin=begin, end=TrainerLoop.train_ended, required=True)
    patches.observe(module, "Trainer.get_batch_samples", begin=_wait_begins, end=_batches_arrived, required=True)
    patches.observe(module, "Trainer.compute_loss_context_manager", after=_loss_begins, required=True)
    patches.observe(module, "Trainer._save_checkpoint", begin=_saving_begins, end=_saved, required=True)
    patches.observe(module, "Trainer.save_model", begin=_model_saving_begins, end=_saved, required=True)
    for method, phase in _PHASES.items():
        patches.replace(module, f"Trainer.{method}", in_phase(phase, scope), required=True)


def patch_accelerator(module: ModuleType, patches: Patches) -> None:
    """All trainers here call backward through accelerate."""
    patches.replace(module, "Accelerator.backward", in_phase(spans.RL_BACKWARD, scope), required=True)


def _identify(configured: Any, *_: Any, **__: Any) -> None:
    systems.configured(type(configured), SYSTEM, details.version(), RlRoleValues.TRAINER)


# -- steps -------------------------------------------------------------------------------------------------------------


def _training_begins(patches: Patches, trainer: Any, *_: Any, **__: Any) -> TrainerLoop | None:
    if not scope.enabled:
        return None
    with guard("transformers.callback_handler"):
        _follow_handler(type(trainer.callback_handler), patches)
    run_parts.describe(details.of_run(trainer))
    record_configuration(systems.identify(type(trainer.args), SYSTEM)[0], trainer.args)
    loop = TrainerLoop(attributes=details.of_trainer(trainer)).enter()
    loop.prepares_since = clock.now()
    return loop


class _DataWait(NamedTuple):
    """The trainer asks for the batches of a step."""

    loop: TrainerLoop
    iteration: int
    since: Moment


def _wait_begins(trainer: Any, *_: Any, **__: Any) -> _DataWait | None:
    if not scope.enabled:
        return None
    loop = trainer_loop.current()
    if loop.prepares_since is not None:
        run_parts.add(Part.TRAINER, loop.prepares_since)
        loop.prepares_since = None
    return _DataWait(loop, trainer.state.global_step + 1, deferral.now())


def _batches_arrived(wait: _DataWait, result: Any, error: BaseException | None) -> None:
    # An iterable data set that has ended is asked up to `max_steps` times, and gives nothing: no step begins then.
    if error is None and result[0]:
        wait.loop.begin_step(wait.iteration, scope, wait.since)


# -- phases ------------------------------------------------------------------------------------------------------------


def _loss_begins(stack: Any, *_: Any, **__: Any) -> None:
    """Begin the forward pass: ``training_step`` computes the loss in this context, whatever ``compute_loss`` is."""
    if type(stack) is not ExitStack:
        return
    phase = trainer_loop.current().open(spans.RL_FORWARD, scope)
    if phase is not None:
        stack.push(phase)


class _Saving(NamedTuple):
    """The trainer saves a checkpoint, or its model; of ranks that only wait for it there is the phase alone."""

    trainer: Any
    phase: PhaseHandle | None
    transfer: Transfer | None


def _saving_begins(trainer: Any, *_: Any, **__: Any) -> _Saving:
    # Its folder is that of the model, which is saved within.
    return _saving(trainer, None)


def _model_saving_begins(trainer: Any, output_dir: Any = None, *_: Any, **__: Any) -> _Saving:
    return _saving(trainer, output_dir or trainer.args.output_dir)


def _saving(trainer: Any, folder: Any) -> _Saving:
    phase = trainer_loop.current().open(spans.RL_CHECKPOINT, scope)
    return _Saving(trainer, phase, checkpoints.begin(Operation.SAVE, Format.TRAINER, folder))


def _saved(saving: _Saving, _: Any, error: BaseException | None) -> None:
    if saving.transfer is not None:
        saving.transfer.end(error)
    if saving.phase is not None:
        saving.phase.end(error)
    trainer = saving.trainer
    saved_checkpoints.best(
        trainer.state.best_model_checkpoint, trainer.args.metric_for_best_model, trainer.state.best_metric
    )


# -- events of the trainer ---------------------------------------------------------------------------------------------

#: Classes of handlers with a ``call_event`` of their own, e.g. of ``trl.experimental.bema_for_ref_model`` 1.16.
_own_handlers: set[type] = set()


def _follow_handler(kind: type, patches: Patches) -> None:
    """Observe the ``call_event`` of a handler that does not inherit it."""
    owner = next((base for base in kind.__mro__ if "call_event" in vars(base)), None)
    if owner is None or owner.__module__ == "transformers.trainer_callback" or kind in _own_handlers:
        return
    _own_handlers.add(kind)
    patches.on_restore(partial(_own_handlers.discard, kind))
    patches.observe(owner, "call_event", begin=_own_event_begins, end=_event_ended)


def _event_begins(handler: Any, event: str, args: Any, state: Any, *others: Any, **details: Any) -> Any:
    if event not in _FOLLOWED or (_own_handlers and type(handler) in _own_handlers):
        return None
    return _own_event_begins(handler, event, args, state, *others, **details)


def _own_event_begins(_: Any, event: str, __: Any, state: Any, *___: Any, **details: Any) -> Any:
    hook = _BEFORE.get(event)
    if hook is not None and scope.enabled:
        with guard(f"transformers.{event}"):
            hook(trainer_loop.current(), state)
    if event == "on_log":
        return _log_begins(state, details.get("logs") or {})
    return event if event == "on_pre_optimizer_step" else None


def _event_ended(state: Any, _: Any, error: BaseException | None) -> None:
    if state == "on_pre_optimizer_step":
        if error is None:
            trainer_loop.current().open(spans.RL_OPTIMIZER, scope)
    else:
        sink.end_call(state)


def _log_begins(state: Any, logs: Mapping[str, Any]) -> Token[object]:
    """Record what is logged before the program's callbacks get it: some change what they are given."""
    token = sink.begin_call(Source.TRAINER)
    if state.is_world_process_zero:
        with guard("transformers.on_log"):
            iteration = state.global_step
            first = trainer_loop.current().covered_since(iteration) if "loss" in logs else iteration
            sink.log(scope, Source.TRAINER, iteration, logs, first)
    return token


def _train_begins(loop: TrainerLoop, state: Any) -> None:
    loop.counts_from(state.global_step, state.num_input_tokens_seen)


def _step_begins(loop: TrainerLoop, state: Any) -> None:
    loop.begin_step(state.global_step + 1, scope)


def _optimizer_ends(loop: TrainerLoop, _: Any) -> None:
    loop.end(spans.RL_OPTIMIZER)


def _step_ends(loop: TrainerLoop, state: Any) -> None:
    loop.end(spans.RL_TRAIN)
    if state.is_world_process_zero:
        loop.count_step(scope, state.num_input_tokens_seen)


#: Before the program's callbacks.
_BEFORE: Mapping[str, Hook] = {
    "on_train_begin": _train_begins,
    "on_step_begin": _step_begins,
    "on_optimizer_step": _optimizer_ends,
    "on_step_end": _step_ends,
}
#: Each micro-batch has an event that is none of them.
_FOLLOWED = frozenset({*_BEFORE, "on_log", "on_pre_optimizer_step"})
