"""Wrappers of ``torch.distributed``: the process group's methods, ``Work.wait`` and ``init_process_group``.

Module functions such as ``all_reduce`` are left alone. Patching them would miss whoever imported them before, count
twice, and break programs: ``P2POp(isend, ...)`` compares function identity.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.collectives.reports import CollectiveReporter
from otel_rl.instrumentors.dynamo import outside_dynamo
from otel_rl.instrumentors.torch_distributed.operations import METHODS, Method
from otel_rl.instrumentors.torch_distributed.process_group_init import announce
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

PACKAGE, INIT = "torch.distributed", "init_process_group"
scope = Scope("torch_distributed")

#: Wrapper -> original of `init_process_group`: the package copies it from `distributed_c10d` once it is wrapped.
_originals: dict[Any, Any] = {}


def patch_distributed_c10d(module: ModuleType, patches: Patches) -> None:
    """Patch ``torch.distributed.distributed_c10d`` right after its import, before anyone can import names from it."""
    if _is_launcher():
        return
    _patch_init(module, patches)
    if settings.current().collectives == "off":
        return
    reporter = collectives()
    recorder = reporter.recorder
    for method in METHODS:
        patches.replace(module.ProcessGroup, method.name, functools.partial(_counted, recorder, method))
    patches.replace(module.Work, "wait", functools.partial(_timed, recorder))
    reporter.start()


@functools.cache
def collectives() -> CollectiveReporter:
    """The one of this process: its counters outlive an uninstrumentation, as instruments cannot be taken back."""
    return CollectiveReporter(CollectiveRecorder(settings.current().slowest, outside_dynamo), scope)


def stop() -> None:
    """After the originals are back: restore copies of them, and let no step ask us any more."""
    package = sys.modules.get(PACKAGE)
    original = _originals.pop(vars(package).get(INIT), None) if package is not None else None
    if original is not None:
        setattr(package, INIT, original)
    collectives().stop()


def _is_launcher() -> bool:
    # The agent of torchrun imports torch.distributed but trains nothing.
    return process_identity.current().role == RlRoleValues.LAUNCHER


def _patch_init(module: ModuleType, patches: Patches) -> None:
    original = module.init_process_group
    patches.replace(module, INIT, functools.partial(_announcing, module))
    _originals[module.init_process_group] = original
    package = sys.modules[PACKAGE]
    if vars(package).get(INIT) is original:
        patches.replace(package, INIT, lambda _: module.init_process_group)


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
