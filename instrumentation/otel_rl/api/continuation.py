"""A rollout goes on in the threads, executors and processes that are started inside it.

The first rollout of a process puts small wrappers in front of the standard library; the end of telemetry takes them
away. Each does nothing unless a rollout is open in its caller's context. Tasks, ``asyncio.to_thread`` and
``run_coroutine_threadsafe`` need none of this: they copy the caller's context.

==================================  =============================================================================
``threading.Thread``                its code runs in the context of :meth:`~threading.Thread.start`
``concurrent.futures`` (threads)    a call runs in the context of its ``submit``, the worker's own otherwise
``multiprocessing``                 a forked child has the context; a spawned one gets it with its process object
pools of processes                  a call runs in the context in which it was submitted, in a worker of any; loky's too
``joblib.Parallel``                 its calls, which other threads submit, have the context in which it was called
``subprocess``                      ``TRACEPARENT`` and ``BAGGAGE`` in the child's environment, if the child records
==================================  =============================================================================
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.api.spawned import CarriedArguments, InheritedContext
from otel_rl.core import settings
from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.process import child_processes
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.telemetry import lifecycle, open_trajectory, propagation
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from opentelemetry.context import Context

    Wrapper = Callable[[Any], Any]

#: Attribute of threads, calls and processes on their way into another context.
_CARRIED = "_otel_rl_context"
_BOOTSTRAP = os.path.join("otel_rl", "distro", "bootstrap")  # noqa: PTH118 - the end of an entry of PYTHONPATH
#: Of executors that run calls in processes: those of ``concurrent.futures``, loky's, and joblib's copy of that.
_EXECUTORS = ("concurrent.futures.process", "loky.process_executor", "joblib.externals.loky.process_executor")
_WORKERS = (("concurrent.futures.thread", "_worker"), *((name, "_process_worker") for name in _EXECUTORS))
_installed = False
_hooked = False
#: A rollout has gone on in another process: the worker of a pool may be in one.
_is_in_processes = False
#: Owner, name, what was there, what we put there.
_replaced: list[tuple[Any, str, Any, Any]] = []
#: The context in which each ``joblib.Parallel`` that runs was called.
_called_in: WeakKeyDictionary[Any, Context] = WeakKeyDictionary()


def install() -> None:
    """Put the wrappers in place, in modules that are imported later too. Cheap when they are."""
    global _installed, _hooked
    if _installed:
        return
    _installed = True
    lifecycle.before_shutdown(restore)
    for name, patch in _PATCHES.items():
        if name in sys.modules or not _hooked:
            hooks.after_import(name, functools.partial(_apply, patch))
    _hooked = True


def _apply(patch: Callable[[ModuleType], None], module: ModuleType) -> None:
    # A hook cannot be taken back: it asks whether the wrappers are still wanted.
    if _installed:
        patch(module)


def restore() -> None:
    """Put the originals back where ours are still in place."""
    global _installed
    _installed = False
    _called_in.clear()
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if vars(owner).get(name) is ours:
            setattr(owner, name, original)


def _replace(owner: Any, name: str, wrapper: Wrapper) -> None:
    original = vars(owner).get(name)
    if original is None or any(replaced[:2] == (owner, name) for replaced in _replaced):
        return
    ours = functools.wraps(original)(wrapper(original))
    setattr(owner, name, ours)
    _replaced.append((owner, name, original, ours))


def _of_open_rollout() -> Context | None:
    """Return the current context, where a rollout is open in it."""
    context = get_current()
    if baggage.get_baggage(attributes.RL_ROLLOUT_ID, context) is None or settings.current().propagate == "off":
        return None
    return context if trace_api.get_current_span(context).get_span_context().is_valid else None


def _variables(context: Context) -> dict[str, str]:
    """Return the variables that carry ``context`` into a process, with the role of model calls in it."""
    from otel_rl.inference import call_roles  # noqa: PLC0415 - few rollouts start processes

    role = call_roles.role_of(context, open_trajectory.current(context), None)
    if role in (Role.JUDGE, Role.TOOL):
        context = baggage.set_baggage(attributes.RL_INFERENCE_ROLE, role, context)
    return propagation.to_environment(context)


# -- threads ---------------------------------------------------------------------------------------------------


def _patch_threads(module: ModuleType) -> None:
    _replace(module.Thread, "start", _starts_thread)
    # Private, but above the frame in which the standard library catches what a thread raises: tracebacks stay the same.
    _replace(module.Thread, "_bootstrap", _runs_in_context)


def _starts_thread(original: Any) -> Any:
    def start(self: Any) -> None:
        with guard("continuation.thread"):
            context = _of_open_rollout()
            # A worker of a pool outlives the rollout: its calls carry their own context.
            if context is not None and not _is_pool_worker(self):
                setattr(self, _CARRIED, context)
        try:
            original(self)
        except BaseException:
            # It may be started again, outside of the rollout.
            vars(self).pop(_CARRIED, None)
            raise

    return start


def _is_pool_worker(started: Any) -> bool:
    """Return whether a thread or process is a worker of an executor."""
    target = getattr(started, "_target", None)
    return target is not None and any(
        target is getattr(sys.modules.get(name), worker, None) for name, worker in _WORKERS
    )


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
            if token is not None:
                detach(token)

    return run


def _patch_thread_pools(module: ModuleType) -> None:
    # The private class of one submitted call: a function around the program's would be a frame in its tracebacks.
    item = getattr(module, "_WorkItem", None)
    if item is not None:
        _replace(item, "__init__", _makes_work_item)
        _replace(item, "run", _runs_in_context)


def _makes_work_item(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        original(self, *args, **kwargs)
        with guard("continuation.submit"):
            context = _of_open_rollout()
            if context is not None:
                setattr(self, _CARRIED, context)

    return __init__


# -- processes -------------------------------------------------------------------------------------------------


def _patch_multiprocessing(module: ModuleType) -> None:
    _replace(module.BaseProcess, "start", _starts_process)


def _starts_process(original: Any) -> Any:
    def start(self: Any) -> None:
        global _is_in_processes
        carried = False
        with guard("continuation.process"):
            context = _of_open_rollout()
            _is_in_processes = _is_in_processes or context is not None
            # As for threads: the calls of a worker carry their own. It may take one that was there before the rollout.
            if context is not None and not _is_pool_worker(self) and _is_same_python():
                setattr(self, _CARRIED, InheritedContext(_variables(context)))
                carried = True
        try:
            original(self)
        finally:
            if carried:
                vars(self).pop(_CARRIED, None)

    return start


def _patch_process_pools(module: ModuleType) -> None:
    # As for threads: a function around the program's would be a frame in its tracebacks.
    item = getattr(module, "_WorkItem", None)
    if item is not None:
        _replace(item, "__init__", _makes_call_of_worker)


def _makes_call_of_worker(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        original(self, *args, **kwargs)
        with guard("continuation.call"):
            carry = _carrier()
            if carry is not None and type(self.kwargs) is dict:
                self.kwargs = carry(self.kwargs)

    return __init__


def _carrier() -> Callable[[dict[str, Any]], CarriedArguments] | None:
    """Return what gives the arguments of a call the current rollout; None where its worker cannot read or need that."""
    global _is_in_processes
    context = _of_open_rollout()
    _is_in_processes = _is_in_processes or context is not None
    # Outside of all rollouts too, once a worker may have been in one.
    if not _is_in_processes or not _is_same_python():
        return None
    environment = {} if context is None else _variables(context)
    return lambda arguments: CarriedArguments(arguments, environment)


def _patch_joblib(module: ModuleType) -> None:
    # Private, as all of it: most calls are submitted by the thread that takes the results of others.
    if hasattr(module.Parallel, "_start") and hasattr(module.Parallel, "_terminate_and_reset"):
        _replace(module.Parallel, "_start", _begins_calls)
        _replace(module.Parallel, "_dispatch", _submits_calls)
        _replace(module.Parallel, "_terminate_and_reset", _ends_calls)


def _begins_calls(original: Any) -> Any:
    def _start(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard("continuation.joblib"):
            _called_in[self] = get_current()
        return original(self, *args, **kwargs)

    return _start


def _submits_calls(original: Any) -> Any:
    def _dispatch(self: Any, batch: Any) -> Any:
        token = None
        with guard("continuation.dispatch"):
            context = _called_in.get(self)
            if context is not None and context is not get_current():
                token = attach(context)
        try:
            return original(self, batch)
        finally:
            if token is not None:
                detach(token)

    return _dispatch


def _ends_calls(original: Any) -> Any:
    def _terminate_and_reset(self: Any) -> Any:
        with guard("continuation.joblib_end"):
            # The program may keep it, and call it again: it would keep the rollout.
            _called_in.pop(self, None)
        return original(self)

    return _terminate_and_reset


def _patch_pools(module: ModuleType) -> None:
    _replace(module.Pool, "apply_async", _makes_task(module.ThreadPool))
    # Of ``map``, ``imap`` and their kind: called in the thread of the program, and read in another one.
    if hasattr(module.Pool, "_guarded_task_generation"):
        _replace(module.Pool, "_guarded_task_generation", _makes_tasks(module.ThreadPool))


def _makes_task(threads: type) -> Wrapper:
    def wrapper(original: Any) -> Any:
        def apply_async(self: Any, *args: Any, **options: Any) -> Any:
            with guard("continuation.task"):
                carry = None if isinstance(self, threads) else _carrier()
                # The third argument, or that of the name.
                given = args[2] if len(args) > 2 else options.get("kwds", {})  # noqa: PLR2004 - as said
                if carry is not None and type(given) is dict and len(args) > 2:  # noqa: PLR2004
                    args = (*args[:2], carry(given), *args[3:])
                elif carry is not None and type(given) is dict:
                    options["kwds"] = carry(given)
            return original(self, *args, **options)

        return apply_async

    return wrapper


def _makes_tasks(threads: type) -> Wrapper:
    def wrapper(original: Any) -> Any:
        def _guarded_task_generation(self: Any, *args: Any, **kwargs: Any) -> Any:
            tasks = original(self, *args, **kwargs)
            with guard("continuation.tasks"):
                carry = None if isinstance(self, threads) else _carrier()
                if carry is not None:
                    return _carrying(tasks, carry)
            return tasks

        return _guarded_task_generation

    return wrapper


def _carrying(tasks: Any, carry: Callable[[dict[str, Any]], CarriedArguments]) -> Iterator[tuple[Any, ...]]:
    for *task, arguments in tasks:
        yield (*task, carry(arguments))


def _is_same_python() -> bool:
    """Return whether spawned children run the same interpreter, so they can import this package."""
    spawn = sys.modules.get("multiprocessing.spawn")
    executable = spawn.get_executable() if spawn is not None else sys.executable
    return executable is None or os.fsdecode(executable) == sys.executable


def _patch_subprocess(module: ModuleType) -> None:
    _replace(module.Popen, "__init__", _starts_subprocess)


def _starts_subprocess(original: Any) -> Any:
    # Through the wrappers of others: they take any arguments. ``self`` is not among those of a call.
    position = list(inspect.signature(original).parameters).index("env") - 1

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        with guard("continuation.subprocess"):
            context = _of_open_rollout()
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
    return {**base, **_variables(context)}


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "threading": _patch_threads,
    "concurrent.futures.thread": _patch_thread_pools,
    **dict.fromkeys(_EXECUTORS, _patch_process_pools),
    "joblib.parallel": _patch_joblib,
    "multiprocessing.pool": _patch_pools,
    "multiprocessing.process": _patch_multiprocessing,
    "subprocess": _patch_subprocess,
}
