"""Forks and ``os.exec*``: a last delivery before the process image goes, and a forked child that reports for itself.

A child has empty queues and metrics and own files. Children of ``multiprocessing`` deliver before ``os._exit``.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard, reset_counts
from otel_rl.core.import_hooks import hooks
from otel_rl.ending import exit as process_exit
from otel_rl.pipeline import exporters, resource
from otel_rl.process import child_processes, process_identity
from otel_rl.telemetry import deferral, drops, lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.pipeline.providers import Telemetry


#: Longest time in seconds that ``os.exec*`` waits for the delivery of what was recorded before.
EXEC_TIMEOUT = 2.0
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
    _deliver_before_exec()
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


def _deliver_before_exec() -> None:
    """Wrap the two calls behind all of ``os.exec*``: the new program has nothing of what this one has not delivered.

    ``sys.addaudithook("os.exec")`` would cost something at every event, and cannot be taken back.
    """
    for name in ("execv", "execve"):
        original = getattr(os, name)
        if not hasattr(original, "__wrapped__"):
            setattr(os, name, _delivering(original))


def _delivering(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def execute(*arguments: Any, **options: Any) -> Any:
        with guard("forks.exec"):
            if not lifecycle.forks and _can_be_run(arguments[0] if arguments else options.get("path")):
                process_exit.flush(EXEC_TIMEOUT)
        return original(*arguments, **options)

    return execute


def _can_be_run(path: Any) -> bool:
    """Return whether ``path`` is a program: ``os.execvp`` tries one folder after the other."""
    try:
        return os.access(path, os.X_OK)
    except (TypeError, ValueError):
        # What the call refuses too, or a descriptor, which hardly anybody gives.
        return False


def _mark() -> None:
    """Set the marker to this child's pid: workers that it spawns compare it with their parent's."""
    ancestor = child_processes.parse_marker(os.environ)
    if ancestor is not None:
        os.environ[child_processes.MARKER] = child_processes.marker(os.getpid(), ancestor[1], os.environ)


def _deliver_before_multiprocessing_exits(module: ModuleType) -> None:
    # Children of multiprocessing end with os._exit: no atexit. Its finalizers are what still runs, ours after the
    # program's own, which may record.
    module.register_after_fork(_anchor, lambda _: module.Finalize(None, process_exit.deliver, exitpriority=-100))
