"""A forked child reports for itself: empty queues and metrics, own files, and a last delivery before ``os._exit``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from otel_rl.core.guard import guard, reset_counts
from otel_rl.core.import_hooks import hooks
from otel_rl.ending import exit as process_exit
from otel_rl.pipeline import exporters, resource
from otel_rl.process import child_processes, process_identity
from otel_rl.telemetry import deferral, drops, lifecycle

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.pipeline.providers import Telemetry


#: ``multiprocess``, which ``datasets.map(num_proc=...)`` uses, is a copy; loky's workers run finalizers of the first.
_MULTIPROCESSING = ("multiprocessing.util", "multiprocess.util")


class _Anchor:
    """Object that ``multiprocessing.util.register_after_fork`` requires; it keeps only a weak reference to it."""


_anchor = _Anchor()


def register(telemetry: Telemetry) -> None:
    """Follow every fork of this process. Called after the providers exist, so that the SDK's own hooks run first."""
    os.register_at_fork(
        before=exporters.opening.before_fork,
        after_in_parent=exporters.opening.after_fork_in_parent,
        after_in_child=exporters.opening.after_fork_in_child,
    )
    deferral.wait_for_ending()
    os.register_at_fork(after_in_child=lambda: _after_fork(telemetry))
    for module in _MULTIPROCESSING:
        hooks.after_import(module, _deliver_before_multiprocessing_exits)


def _after_fork(telemetry: Telemetry) -> None:
    try:
        _start_anew(telemetry)
    finally:
        deferral.release_child()


def _start_anew(telemetry: Telemetry) -> None:
    with guard("forks.after_fork"):
        telemetry.after_fork_in_child()
        drops.reset()
        reset_counts()
        lifecycle.run_after_fork_callbacks()
        process_identity.after_fork_in_child()
        resource.follow_identity()
        process_exit.after_fork_in_child()
        _mark()
        telemetry.arm()


def _mark() -> None:
    """Set the marker to this child's pid: workers that it spawns compare it with their parent's."""
    ancestor = child_processes.parse_marker(os.environ)
    if ancestor is not None:
        os.environ[child_processes.MARKER] = child_processes.marker(os.getpid(), ancestor[1], os.environ)


def _deliver_before_multiprocessing_exits(module: ModuleType) -> None:
    # Children of multiprocessing end with os._exit: no atexit. Its finalizers are what still runs, ours after the
    # program's own, which may record.
    module.register_after_fork(_anchor, lambda _: module.Finalize(None, process_exit.deliver, exitpriority=-100))
