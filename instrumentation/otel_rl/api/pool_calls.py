"""Calls for pools of processes carry the rollout and the step in which they were submitted, see ``continuation``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry.context import get_current

from otel_rl.api.carried import carrier
from otel_rl.api.replacements import replace
from otel_rl.core.guard import guard
from otel_rl.process.pool_workers import EXECUTORS
from otel_rl.telemetry.context import attach, detach
from otel_rl.training import caller_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from opentelemetry.context import Context

    from otel_rl.api.replacements import Wrapper
    from otel_rl.api.spawned import CarriedArguments

#: The context in which each ``joblib.Parallel`` that runs was called, and whether that was in an evaluation.
_called_in: WeakKeyDictionary[Any, tuple[Context, bool]] = WeakKeyDictionary()


def forget() -> None:
    """Forget what waits: the wrappers go."""
    _called_in.clear()


def _patch_process_pools(module: ModuleType) -> None:
    # As for threads: a function around the program's would be a frame in its tracebacks.
    item = getattr(module, "_WorkItem", None)
    if item is not None:
        replace(item, "__init__", _makes_call_of_worker)


def _makes_call_of_worker(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for it
        original(self, *args, **kwargs)
        with guard("continuation.call"):
            carry = carrier()
            if carry is not None and type(self.kwargs) is dict:
                self.kwargs = carry(self.kwargs)

    return __init__


def _patch_joblib(module: ModuleType) -> None:
    # Private, as all of it: most calls are submitted by the thread that takes the results of others.
    if hasattr(module.Parallel, "_start") and hasattr(module.Parallel, "_terminate_and_reset"):
        replace(module.Parallel, "_start", _begins_calls)
        replace(module.Parallel, "_dispatch", _submits_calls)
        replace(module.Parallel, "_terminate_and_reset", _ends_calls)


def _begins_calls(original: Any) -> Any:
    def _start(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard("continuation.joblib"):
            _called_in[self] = get_current(), caller_steps.is_evaluation()
        return original(self, *args, **kwargs)

    return _start


def _submits_calls(original: Any) -> Any:
    def _dispatch(self: Any, batch: Any) -> Any:
        token = evaluates = None
        with guard("continuation.dispatch"):
            called_in = _called_in.get(self)
            if called_in is not None and called_in[0] is not get_current():
                evaluates = caller_steps.made_in_evaluation.set(called_in[1])
                token = attach(called_in[0])
        try:
            return original(self, batch)
        finally:
            detach(token)
            if evaluates is not None:
                caller_steps.made_in_evaluation.reset(evaluates)

    return _dispatch


def _ends_calls(original: Any) -> Any:
    def _terminate_and_reset(self: Any) -> Any:
        with guard("continuation.joblib_end"):
            # The program may keep it, and call it again: it would keep the rollout.
            _called_in.pop(self, None)
        return original(self)

    return _terminate_and_reset


def _patch_pools(module: ModuleType) -> None:
    replace(module.Pool, "apply_async", _makes_task(module.ThreadPool))
    # Of ``map``, ``imap`` and their kind: called in the thread of the program, and read in another one.
    if hasattr(module.Pool, "_guarded_task_generation"):
        replace(module.Pool, "_guarded_task_generation", _makes_tasks(module.ThreadPool))


def _makes_task(threads: type) -> Wrapper:
    def wrapper(original: Any) -> Any:
        def apply_async(self: Any, *args: Any, **options: Any) -> Any:
            with guard("continuation.task"):
                carry = None if isinstance(self, threads) else carrier()
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
                carry = None if isinstance(self, threads) else carrier()
                if carry is not None:
                    return _carrying(tasks, carry)
            return tasks

        return _guarded_task_generation

    return wrapper


def _carrying(tasks: Any, carry: Callable[[dict[str, Any]], CarriedArguments]) -> Iterator[tuple[Any, ...]]:
    for *task, arguments in tasks:
        yield (*task, carry(arguments))


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    **dict.fromkeys(EXECUTORS, _patch_process_pools),
    "joblib.parallel": _patch_joblib,
    "multiprocessing.pool": _patch_pools,
}
