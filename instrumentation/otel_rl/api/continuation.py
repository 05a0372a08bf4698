"""Continues a rollout in threads, executors and processes started inside it, and an agent's run in threads.

The first rollout or run of a process puts small wrappers in front of the standard library; the end of telemetry takes
them away. Each does nothing unless a rollout or run is open in its caller's context. Tasks, ``asyncio.to_thread`` and
``run_coroutine_threadsafe`` need none of this: they copy the caller's context.

==================================  =============================================================================
``threading.Thread``                its code runs in the context of :meth:`~threading.Thread.start`
``concurrent.futures`` (threads)    a call runs in the context of its ``submit``, the worker's own otherwise
``multiprocessing``                 a forked child has the context; a spawned one gets it with its process object
pools of processes                  a call runs in the context in which it was submitted, in a worker of any; loky's too
``joblib.Parallel``                 its calls, which other threads submit, have the context in which it was called
``subprocess``                      ``TRACEPARENT`` and ``BAGGAGE`` in the child's environment, if the child records
==================================  =============================================================================

Calls for pools of processes carry the step in which they were submitted, too (:mod:`.pool_calls`): a rollout that
begins in a worker belongs to that step. So the wrappers of these come with the first step already.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.api import carried, pool_calls, replacements
from otel_rl.api.replacements import replace
from otel_rl.api.spawned import InheritedContext
from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.process import child_processes, pool_workers
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from opentelemetry.context import Context

#: Attribute of threads, calls and processes on their way into another context.
_CARRIED = "_otel_rl_context"
_BOOTSTRAP = os.path.join("otel_rl", "distro", "bootstrap")  # noqa: PTH118 - the end of an entry of PYTHONPATH
_installed = False
#: Names of modules whose wrappers are wanted, and of those whose import is followed.
_wanted: set[str] = set()
_hooked: set[str] = set()


def install() -> None:
    """Put the wrappers in place, in modules that are imported later too. Cheap when they are."""
    global _installed
    if _installed:
        return
    _installed = True
    _follow(_PATCHES)


def install_for_steps() -> None:
    """Put those in place that carry steps: of processes and their pools."""
    _follow({name: patch for name, patch in _PATCHES.items() if name in _OF_STEPS})


def _follow(patches: Mapping[str, Callable[[ModuleType], None]]) -> None:
    lifecycle.before_shutdown(restore)
    for name, patch in patches.items():
        if name in _wanted:
            continue
        _wanted.add(name)
        if name in sys.modules or name not in _hooked:
            hooks.after_import(name, functools.partial(_apply, name, patch))
        _hooked.add(name)


def _apply(name: str, patch: Callable[[ModuleType], None], module: ModuleType) -> None:
    # A hook cannot be taken back: it asks whether the wrappers are still wanted.
    if name in _wanted:
        patch(module)


def restore() -> None:
    """Put the originals back where ours are still in place."""
    global _installed
    _installed = False
    _wanted.clear()
    pool_calls.forget()
    replacements.restore()


# -- threads ---------------------------------------------------------------------------------------------------


def _patch_threads(module: ModuleType) -> None:
    replace(module.Thread, "start", _starts_thread)
    # Private, but above the frame in which the standard library catches what a thread raises: tracebacks stay the same.
    replace(module.Thread, "_bootstrap", _runs_in_context)


def _starts_thread(original: Any) -> Any:
    def start(self: Any) -> None:
        with guard("continuation.thread"):
            context = carried.of_open_trajectory()
            # A worker of a pool outlives the rollout: its calls carry their own context.
            if context is not None and not pool_workers.is_of_executor(self):
                setattr(self, _CARRIED, context)
        try:
            original(self)
        except BaseException:
            # It may be started again, outside of the rollout.
            vars(self).pop(_CARRIED, None)
            raise

    return start


def _runs_in_context(original: Any) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = None
        with guard("continuation.attach"):
            context = vars(self).pop(_CARRIED, None)
            if context is not None:
                token = attach(context)
        try:
            return original(self, *args, **kwargs)
        finally:
            detach(token)

    return run


def _patch_thread_pools(module: ModuleType) -> None:
    # The private class of one submitted call: a function around the program's would be a frame in its tracebacks.
    item = getattr(module, "_WorkItem", None)
    if item is not None:
        replace(item, "__init__", _makes_work_item)
        replace(item, "run", _runs_in_context)


def _makes_work_item(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        original(self, *args, **kwargs)
        with guard("continuation.submit"):
            context = carried.of_open_trajectory()
            if context is not None:
                setattr(self, _CARRIED, context)

    return __init__


# -- processes -------------------------------------------------------------------------------------------------


def _patch_multiprocessing(module: ModuleType) -> None:
    replace(module.BaseProcess, "start", _starts_process)


def _starts_process(original: Any) -> Any:
    def start(self: Any) -> None:
        carries = False
        with guard("continuation.process"):
            context = carried.starts(self)
            if context is not None:
                setattr(self, _CARRIED, InheritedContext(carried.variables(context)))
                carries = True
        try:
            original(self)
        finally:
            if carries:
                vars(self).pop(_CARRIED, None)

    return start


def _patch_subprocess(module: ModuleType) -> None:
    replace(module.Popen, "__init__", _starts_subprocess)


def _starts_subprocess(original: Any) -> Any:
    # Through the wrappers of others: they take any arguments. ``self`` is not among those of a call.
    position = list(inspect.signature(original).parameters).index("env") - 1

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        with guard("continuation.subprocess"):
            context = carried.of_open_rollout()
            if context is not None:
                given = args[position] if len(args) > position else kwargs.get("env")
                environment = _environment(given, context)
                if environment is not None and len(args) > position:
                    args = (*args[:position], environment, *args[position + 1 :])
                elif environment is not None:
                    kwargs["env"] = environment
        original(self, *args, **kwargs)

    return __init__


def _environment(given: Mapping[Any, Any] | None, context: Context) -> dict[str, str] | None:
    """Return the environment of a child that joins the rollout; None when the child does not record.

    A trace context that the program itself hands on stays.
    """
    try:
        base = os.environ if given is None else {os.fsdecode(key): os.fsdecode(value) for key, value in given.items()}
    except (AttributeError, TypeError):
        # No environment: the original raises that to the program.
        return None
    folders = base.get("PYTHONPATH", "").split(os.pathsep)
    if not any(folder.rstrip(os.sep).endswith(_BOOTSTRAP) for folder in folders):
        return None
    if base.get(child_processes.CHILDREN, "").strip().lower() == "none":
        return None
    if base.get("TRACEPARENT") != os.environ.get("TRACEPARENT"):
        return None
    return {**base, **carried.variables(context)}


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "threading": _patch_threads,
    "concurrent.futures.thread": _patch_thread_pools,
    **pool_calls.PATCHES,
    "multiprocessing.process": _patch_multiprocessing,
    "subprocess": _patch_subprocess,
}
_OF_STEPS = frozenset({*pool_calls.PATCHES, "multiprocessing.process"})
