"""Wrappers of ``torch.distributed``: the process group's methods, ``Work.wait`` and ``init_process_group``.

Module functions such as ``all_reduce`` are left alone. Patching them would miss whoever imported them before, count
twice, and break programs: ``P2POp(isend, ...)`` compares function identity.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.instrumentors.torch_distributed.announcement import announce
from otel_rl.instrumentors.torch_distributed.operations import METHODS, Method
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard, run
from otel_rl.telemetry.collectives import CollectiveRecorder, CollectiveReporter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

C10D = "torch.distributed.distributed_c10d"
scope = Scope("torch_distributed")

_reporters: list[CollectiveReporter] = []


def patch_distributed_c10d(module: ModuleType, patches: Patches) -> None:
    """Patch ``torch.distributed.distributed_c10d`` right after its import, before anyone can import names from it."""
    if _is_launcher():
        return
    patches.replace(module, "init_process_group", functools.partial(_announcing, module))
    if settings.current().collectives == "off":
        return
    recorder = CollectiveRecorder(settings.current().slowest)
    for method in METHODS:
        patches.replace(module.ProcessGroup, method.name, functools.partial(_counted, recorder, method))
    patches.replace(module.Work, "wait", functools.partial(_timed, recorder))
    reporter = CollectiveReporter(recorder, scope)
    reporter.start()
    _reporters.append(reporter)


def patch_distributed(module: ModuleType, patches: Patches) -> None:
    """``torch.distributed`` holds a copy of ``init_process_group``: wrapped like the original, and as exactly restored."""
    if _is_launcher():
        return
    ours = sys.modules[C10D].init_process_group
    if module.init_process_group is ours:
        # Imported after we had patched the original: put that one in place so that restoring finds it.
        module.init_process_group = ours.__wrapped__
    if module.init_process_group is ours.__wrapped__:
        patches.replace(module, "init_process_group", lambda _: ours)


def stop_reporting() -> None:
    """After the originals are back: no step asks us any more."""
    while _reporters:
        _reporters.pop().stop()


def _is_launcher() -> bool:
    # The agent of torchrun imports torch.distributed but trains nothing.
    return run.current().role == RlRoleValues.LAUNCHER


def _announcing(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with guard("torch_distributed.announce"):
            announce(module, scope)
        return result

    return init_process_group


def _counted(recorder: CollectiveRecorder, method: Method, raw: Any) -> Callable[..., Any]:
    return _like(raw, recorder.recording(method.operation, method.payload, _function(raw)))


def _timed(recorder: CollectiveRecorder, raw: Any) -> Callable[..., Any]:
    return _like(raw, recorder.waiting(_function(raw)))


def _function(raw: Any) -> Callable[..., Any]:
    # pybind keeps an `instancemethod` in the class dictionary; the function inside it takes the instance directly.
    function: Callable[..., Any] = getattr(raw, "__func__", raw)
    return function


def _like(raw: Any, replacement: Callable[..., Any]) -> Callable[..., Any]:
    return functools.update_wrapper(replacement, _function(raw))
