"""Wrappers of ``torch.distributed``: the process group's methods, ``Work.wait`` and ``init_process_group``.

Module functions such as ``all_reduce`` are left alone. Patching them would miss whoever imported them before, count
twice, and break programs: ``P2POp(isend, ...)`` compares function identity.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.instrumentors.torch_distributed import rendezvous
from otel_rl.instrumentors.torch_distributed.operations import METHODS
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard, run
from otel_rl.telemetry.collectives import CollectiveRecorder, CollectiveReporter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("torch_distributed")


class _Initialisations:
    """How often this process has set up its default group, and what the last time told."""

    def __init__(self) -> None:
        self.count = 0
        self.clock_offset: float | None = None


_initialisations = _Initialisations()
reporters: list[CollectiveReporter] = []


def patch_distributed_c10d(module: ModuleType, patches: Patches) -> None:
    """Patch ``torch.distributed.distributed_c10d`` right after its import, before anyone can import names from it."""
    if run.current().role == RlRoleValues.LAUNCHER:
        return
    patches.replace(module, "init_process_group", _announcing)
    if settings.current().collectives == "off":
        return
    recorder = CollectiveRecorder(settings.current().slowest)
    for method in METHODS:
        patches.replace(
            module.ProcessGroup,
            method.name,
            lambda raw, method=method: _as_method(raw, recorder.recording(method.operation, method.payload, _call(raw))),
        )
    patches.replace(module.Work, "wait", lambda raw: _as_method(raw, recorder.waiting(_call(raw))))
    reporter = CollectiveReporter(recorder, scope)
    reporter.start()
    reporters.append(reporter)


def patch_distributed(module: ModuleType, patches: Patches) -> None:
    """``torch.distributed`` copies ``init_process_group`` from ``distributed_c10d``: the copy must be restorable too."""
    public = vars(module).get("init_process_group")
    original = getattr(public, "__wrapped__", None)
    if isinstance(public, _Announcing) or original is None:
        return
    del original


def _call(raw: Any) -> Callable[..., Any]:
    # pybind keeps an `instancemethod` in the class dictionary; the function inside is called without binding.
    return getattr(raw, "__func__", raw)  # type: ignore[no-any-return]
