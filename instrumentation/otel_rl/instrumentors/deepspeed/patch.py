"""Wrappers of DeepSpeed's engine and monitors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.deepspeed import readings
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard
from otel_rl.training import guessed_steps, steps, systems
from otel_rl.training.scalars import Source, sink
from otel_rl.training.trainer_loop import in_phase

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.training.guessed_steps import GuessedSteps

SYSTEM = "deepspeed"
scope = Scope("deepspeed")


def patch_engine(module: ModuleType, patches: Patches) -> None:
    """Patch the engine; ``_take_model_step`` is where it and those of pipelines update the model and count the step."""
    patches.observe(module, "DeepSpeedEngine.__init__", before=_identify, after=_follow, required=True)
    patches.observe(module, "DeepSpeedEngine.forward", before=_forward_begins, required=True)
    patches.observe(module, "DeepSpeedEngine.backward", begin=_backward_begins, end=_backward_ended, required=True)
    patches.observe(module, "DeepSpeedEngine._take_model_step", begin=_update_begins, end=_update_ended, required=True)
    checkpoint = in_phase(spans.RL_CHECKPOINT, scope)
    patches.replace(module, "DeepSpeedEngine.save_checkpoint", checkpoint, required=True)


def patch_monitor(module: ModuleType, patches: Patches) -> None:
    """All monitors get their values by this method."""
    patches.observe(module, "MonitorMaster.write_events", begin=_log_begins, end=_log_ended, required=True)


def _identify(engine: Any, *_: Any, **__: Any) -> None:
    version = getattr(sys.modules.get("deepspeed"), "__version__", None)
    systems.configured(type(engine), SYSTEM, version, RlRoleValues.TRAINER, is_layer=True)


# -- steps -------------------------------------------------------------------------------------------------------------


def _steps() -> GuessedSteps | None:
    return guessed_steps.running if scope.enabled and steps.may_guess else None


def _follow(_: Any, engine: Any, *__: Any, **___: Any) -> None:
    steps_of_loop = _steps()
    if steps_of_loop is not None:
        steps_of_loop.are_told_by(engine, readings, scope)


def _forward_begins(engine: Any, *_: Any, **__: Any) -> None:
    steps_of_loop = _steps()
    # Reference and evaluated models have passes too, which belong to no update.
    if steps_of_loop is not None and engine.module.training:
        steps_of_loop.forward_begins()


def _backward_begins(_: Any, loss: Any, *__: Any, **___: Any) -> GuessedSteps | None:
    steps_of_loop = _steps()
    return steps_of_loop if steps_of_loop is not None and steps_of_loop.backward_begins(loss) else None


def _backward_ended(steps_of_loop: GuessedSteps, _: Any, error: BaseException | None) -> None:
    steps_of_loop.backward_ended(error)


def _update_begins(engine: Any, *_: Any, **__: Any) -> tuple[GuessedSteps, Any, int] | None:
    steps_of_loop = _steps()
    if steps_of_loop is None:
        return None
    steps_of_loop.update_begins(engine)
    return steps_of_loop, engine, engine.global_steps


def _update_ended(state: tuple[GuessedSteps, Any, int], _: Any, __: BaseException | None) -> None:
    steps_of_loop, engine, before = state
    if engine.global_steps > before:
        steps_of_loop.update_ended(engine)


# -- values ------------------------------------------------------------------------------------------------------------


def _log_begins(_: Any, events: Iterable[tuple[Any, ...]], *__: Any, **___: Any) -> Token[object] | None:
    if not scope.enabled:
        return None
    token = sink.begin_call(Source.DEEPSPEED)
    with guard("deepspeed.write_events"):
        if process_identity.current().leads_training and isinstance(events, list | tuple):
            # Each has a name, a value and the samples so far, which is the axis of its monitors.
            sink.log(scope, Source.DEEPSPEED, steps.where().iteration, {event[0]: event[1] for event in events})
    return token


def _log_ended(token: Token[object], _: Any, __: BaseException | None) -> None:
    sink.end_call(token)
