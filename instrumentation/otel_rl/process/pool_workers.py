"""Which threads and processes are workers of pools: what they run belongs to the calls that the pool is given."""

from __future__ import annotations

import sys
from typing import Any

#: Of executors that run calls in processes: those of ``concurrent.futures``, loky's, and joblib's copy of that.
EXECUTORS = ("concurrent.futures.process", "loky.process_executor", "joblib.externals.loky.process_executor")
#: Module and name of the private functions that workers run.
_OF_PROCESS_EXECUTORS = tuple((name, "_process_worker") for name in EXECUTORS)
_OF_EXECUTORS = (("concurrent.futures.thread", "_worker"), *_OF_PROCESS_EXECUTORS)
_OF_MULTIPROCESSING_POOLS = (("multiprocessing.pool", "worker"),)
_OF_PROCESS_POOLS = (*_OF_PROCESS_EXECUTORS, *_OF_MULTIPROCESSING_POOLS)


def is_of_executor(started: Any) -> bool:
    """Return whether a thread or process is a worker of an executor; asked when it starts."""
    return _runs_one_of(started, _OF_EXECUTORS)


def is_of_process_pool(process: Any) -> bool:
    """Return whether a process is a worker of an executor or of a ``multiprocessing.Pool``; asked when it starts."""
    return _runs_one_of(process, _OF_PROCESS_POOLS)


def is_of_multiprocessing_pool(process: Any) -> bool:
    """Return whether it is one of a ``multiprocessing.Pool``, which never answers the call of a worker that is lost."""
    return _runs_one_of(process, _OF_MULTIPROCESSING_POOLS)


def _runs_one_of(started: Any, functions: tuple[tuple[str, str], ...]) -> bool:
    # ``BaseProcess.start`` deletes it when it has started.
    target = getattr(started, "_target", None)
    return target is not None and any(
        target is getattr(sys.modules.get(module), name, None) for module, name in functions
    )
