"""Wrappers of ``Accelerator``: what is logged and saved through it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard
from otel_rl.training import steps, systems
from otel_rl.training.logged_values import step_number
from otel_rl.training.scalars import Source, sink
from otel_rl.training.trainer_loop import in_phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

SYSTEM = "accelerate"
scope = Scope("accelerate")

_SAVING = ("save_state", "save_model")


def patch_accelerator(module: ModuleType, patches: Patches) -> None:
    """Patch the one object that a program makes; what it does in a step is followed in PyTorch."""
    patches.observe(module, "Accelerator.__init__", before=_identify, required=True)
    patches.observe(module, "Accelerator.log", begin=_log_begins, end=_log_ended, required=True)
    for method in _SAVING:
        patches.replace(module, f"Accelerator.{method}", in_phase(spans.RL_CHECKPOINT, scope), required=True)


def _identify(accelerator: Any, *_: Any, **__: Any) -> None:
    version = getattr(sys.modules.get("accelerate"), "__version__", None)
    systems.configured(type(accelerator), SYSTEM, version, RlRoleValues.TRAINER, is_layer=True)


def _log_begins(
    accelerator: Any, values: Mapping[str, Any], step: int | None = None, *_: Any, **__: Any
) -> Token[object] | None:
    """Record the call before the trackers get the values: some change what they are given."""
    if not scope.enabled:
        return None
    token = sink.begin_call(Source.ACCELERATE)
    with guard("accelerate.log"):
        if accelerator.is_main_process:
            sink.log(scope, Source.ACCELERATE, _placed(step_number(step)), values)
    return token


def _placed(given: int | None) -> int | None:
    """Return the step of a log call: the one that somebody tells, else the one that was given, else the guessed one."""
    position = steps.where()
    known = position.iteration
    loop = position.loop if position.step is None else position.step.loop
    # Programs may number their log calls by epochs. Guessed steps count from 1, also after a resume.
    is_guessed = loop is not None and loop.source == LoopSource.GUESSED
    return given if known is None or (is_guessed and given is not None) else known


def _log_ended(token: Token[object], _: Any, __: BaseException | None) -> None:
    sink.end_call(token)
