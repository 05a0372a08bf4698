"""Watches how children end that torchrun's agent or ``multiprocessing`` of this process started.

A killed process cannot say what killed it, its parent can. Our part runs after the parent's own calls, so a child that
nobody waits for is not seen. Of ``multiprocessing`` ends with status 0 are not recorded. An end by SIGTERM is recorded
if the parent called ``terminate()``, as pools do: that explains a child without a record of its end, and is no event.
A status 1 that CPython gives to whatever a thread of an executor forks is none.
"""

from __future__ import annotations

import functools
import signal
from threading import current_thread
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from otel_rl.core import threads
from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.core.threads import allocate_lock, start_new_thread
from otel_rl.process import pool_workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime

ELASTIC = "torch.distributed.elastic.multiprocessing.api"
#: ``popen_spawn_posix`` inherits from the first.
FORKSERVER = "multiprocessing.popen_forkserver"
MULTIPROCESSING = ("multiprocessing.popen_fork", FORKSERVER)
AGENT = "torchrun's agent"
PARENT = "its multiprocessing parent"
#: Most ends that one process records.
MAXIMUM = 1000
#: Seconds that a parent waits at most until an end has been written.
DEADLINE = 1.0
_GUARD = guard("child_exits")


class ChildExits:
    """The ends that this process has seen; one object per process."""

    def __init__(self) -> None:
        #: Gets each end, after it was written.
        self.report: Callable[[Exit], None] | None = None
        self._followed: set[str] = set()
        self._recorded = 0
        #: Of the cgroup, when the first child began, then at the end before; unset while there was no child.
        self._oom_kills: int | None
        #: Contexts of the agent -> local rank -> who runs there; a rank that has ended is taken out.
        self._ranks: WeakKeyDictionary[Any, dict[int, Lifetime]] = WeakKeyDictionary()
        #: Children of multiprocessing that have not ended.
        self._children: WeakKeyDictionary[Any, Lifetime] = WeakKeyDictionary()
        #: Those of them that are workers of pools, with who reports them, and those that were forked in a thread of an
        #: executor. These wait for that thread at their end, which they are, and exit with 1
        #: (https://github.com/python/cpython/issues/88110).
        self._workers: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._of_threads: WeakSet[Any] = WeakSet()
        #: Those that this process told to end.
        self._terminated: WeakSet[Any] = WeakSet()

    def watch(self) -> None:
        """Follow the modules that start children, now or when they are imported."""
        for name in (ELASTIC, *MULTIPROCESSING):
            hooks.after_import(name, self.follow)

    def follow(self, module: ModuleType) -> None:
        """Patch ``module``, one of those that start children; once, whoever calls it."""
        if module.__name__ in self._followed:
            return
        self._followed.add(module.__name__)
        if module.__name__ == ELASTIC:
            self._patch_agent(module)
        else:
            self._patch_multiprocessing(module)

    # -- torchrun's agent ------------------------------------------------------------------------------------------

    def _patch_agent(self, module: ModuleType) -> None:
        for name, observe in (("start", self._started), ("wait", self._look), ("close", self._look)):
            _after(module.PContext, name, observe)

    def _started(self, context: Any) -> None:
        handlers = getattr(context, "subprocess_handlers", None) or {}
        self._ranks[context] = {local: self._begun(handler.proc.pid) for local, handler in handlers.items()}

    def _look(self, context: Any) -> None:
        running = self._ranks.get(context) or {}
        for local in list(running):
            status = context.subprocess_handlers[local].proc.returncode
            if status is not None:
                who = running.pop(local)
                self._record(who, status, _rank_number(context.envs[local].get("RANK")), AGENT)

    # -- multiprocessing -------------------------------------------------------------------------------------------

    def _patch_multiprocessing(self, module: ModuleType) -> None:
        if module.__name__ == FORKSERVER:
            # Not this process but the server of the children takes their status, perhaps before the first poll.
            _after(module.Popen, "_launch", self._note)
        else:
            self._patch_begin(module.Popen)
            _after(module.Popen, "terminate", self._terminated.add)
        original = module.Popen.poll

        @functools.wraps(original)
        def poll(popen: Any, *args: Any, **kwargs: Any) -> Any:
            if popen.returncode is None:
                with _GUARD:
                    self._note(popen)
            status = original(popen, *args, **kwargs)
            if status is not None:
                with _GUARD:
                    self._ended(popen, status)
            return status

        module.Popen.poll = poll

    def _patch_begin(self, kind: Any) -> None:
        """Know the workers of pools; the classes of all start methods inherit from this one."""
        original = kind.__init__

        @functools.wraps(original)
        def __init__(popen: Any, process: Any) -> None:  # noqa: N807 - stands for it
            original(popen, process)
            with _GUARD:
                if pool_workers.is_of_process_pool(process):
                    self._workers[popen] = _reporter(process)
                elif popen.method == "fork" and pool_workers.is_of_executor(current_thread()):
                    self._of_threads.add(popen)

        kind.__init__ = __init__

    def _note(self, popen: Any) -> None:
        """Read the child's lifetime before the parent takes its status: then the pid is free for another process."""
        # A launch that has failed leaves none.
        pid = getattr(popen, "pid", None)
        if pid is not None and popen not in self._children:
            self._children[popen] = self._begun(pid)

    def _ended(self, popen: Any, status: int) -> None:
        who = self._children.pop(popen, None)
        if who is None or status == 0 or (status == 1 and popen in self._of_threads):
            return
        if status != -signal.SIGTERM:
            self._record(who, status, None, self._workers.get(popen, PARENT))
        elif popen in self._terminated:
            from otel_rl.process import exit_records  # noqa: PLC0415 - most processes end no child so

            self._record(who, status, None, exit_records.TERMINATING)

    # -- both ------------------------------------------------------------------------------------------------------

    def _begun(self, pid: int) -> Lifetime:
        from otel_rl.process import lifetime, oom_kills  # noqa: PLC0415 - most processes start no such child

        if not hasattr(self, "_oom_kills"):
            self._oom_kills = oom_kills.counted()
        return lifetime.child_lifetime(pid)

    def _record(self, who: Lifetime, status: int, rank: int | None, reported_by: str) -> None:
        if self._recorded >= MAXIMUM:
            return
        self._recorded += 1
        from otel_rl.process import exit_records, oom_kills  # noqa: PLC0415 - as above

        kills, before = oom_kills.counted(), self._oom_kills
        self._oom_kills = kills
        new = kills - before if kills is not None and before is not None else None
        exit_ = exit_records.make(who, status, rank, reported_by, new)
        try:
            _within_deadline(exit_records.write, exit_)
        finally:
            if self.report is not None and not exit_.is_asked_for:
                self.report(exit_)


def _within_deadline(write: Callable[[Exit], None], exit_: Exit) -> None:
    """Call ``write(exit_)`` in a thread: the run's folder may be on a file system that does not answer."""
    done = allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            with _GUARD:
                write(exit_)
        finally:
            done.release()

    try:
        start_new_thread(run, ())
    except RuntimeError:
        if not threads.interpreter_is_ending:
            raise
        run()
    done.acquire(timeout=DEADLINE)


def _after(owner: Any, name: str, observe: Callable[[Any], None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        finally:
            with _GUARD:
                observe(self)

    setattr(owner, name, method)


def _reporter(worker: Any) -> str:
    from otel_rl.process import exit_records  # noqa: PLC0415 - most processes start no such child

    is_of_multiprocessing = pool_workers.is_of_multiprocessing_pool(worker)
    return exit_records.MULTIPROCESSING_POOL if is_of_multiprocessing else exit_records.POOL


def _rank_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


#: The one of this process.
exits = ChildExits()
