"""Identity once a process group stands: the rank becomes known, and the ranks agree on one run id.

A group of one tells a rank and nothing else. In a group of several, rank 0 publishes its identity, and the ranks that
do not know the run id of the launch take it over: see :mod:`.rendezvous`. Clock offsets are not measured: it is 0 for
ranks on the machine of rank 0, and unknown elsewhere.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.torch_distributed import rendezvous
from otel_rl.process import child_processes, launch, lifetime, process_identity
from otel_rl.semconv import metrics
from otel_rl.telemetry import guard, lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from otel_rl.telemetry import Scope

#: Seconds that the end of the process waits for the thread of a meeting, which it has told to stop: one request. A
#: thread inside of torch while Python finalizes could abort the process, see :func:`.rendezvous.receive`.
EXIT_PATIENCE = 0.3


class _Meeting:
    """State of this process: the thread of a meeting, and whether one has taken place or failed."""

    thread: threading.Thread | None = None
    stop = threading.Event()
    over = False
    #: Our wall clock minus rank 0's in seconds (None: not known).
    clock_offset: float | None = None


def announce(module: ModuleType, scope: Scope) -> None:
    """Set state and start a thread; called after ``init_process_group`` in every rank, on the program's thread."""
    rank, world_size = module.get_rank(), module.get_world_size()
    child_processes.mark_ranks(os.environ)
    if world_size == 1 or not _has_several_ranks(module):
        process_identity.update(rank=rank, world_size=world_size)
    else:
        _join_group(module, rank, world_size)
    if rank == 0 or os.environ.get("LOCAL_WORLD_SIZE") == str(world_size):
        _Meeting.clock_offset = 0.0
    if scope.enabled:
        scope.observe(metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET, _observe_offset)


def _has_several_ranks(module: ModuleType) -> bool:
    # The fake backend runs one process that says it is one of many.
    backend: str = module.get_backend()
    return backend != "fake"


def _join_group(module: ModuleType, rank: int, world_size: int) -> None:
    # First, so that nothing is exported under a name that is about to change.
    process_identity.begin_meeting()
    who = process_identity.current()
    certain = who.numbered and who.agreed
    if rank != 0 and not certain:
        process_identity.share_no_steps()
    process_identity.update(rank=rank, world_size=world_size)
    store = module._get_default_store()  # noqa: SLF001 - no public access
    part = _lead if rank == 0 else _follow
    if rendezvous.can_clone(store) and (rank == 0 or not (certain or _Meeting.over)):
        _meet(partial(part, store))
    else:
        process_identity.end_meeting()


def _meet(part: Callable[[], None]) -> None:
    """Run ``part`` on a thread; until it returns, the identity is not settled."""
    _Meeting.thread = threading.Thread(target=_run, args=(part,), name="otel-rl-meeting", daemon=True)
    lifecycle.before_shutdown(_finish)
    started = False
    with guard("torch_distributed.meeting.start"):
        _Meeting.thread.start()
        started = True
    if not started:
        process_identity.end_meeting()


def _run(part: Callable[[], None]) -> None:
    try:
        with guard("torch_distributed.meeting"):
            part()
    finally:
        _Meeting.over = True
        process_identity.end_meeting()


def _lead(store: Any) -> None:
    who = process_identity.current()
    if not who.id:
        return
    if not (who.numbered or who.leads):
        # Not the only rank 0 of this run, perhaps: the group has step traces of its own.
        who = process_identity.update(steps_key=f"{who.id}/{who.attempt}/{os.urandom(8).hex()}")
    rendezvous.publish(store, rendezvous.Identity(who.id or "", who.attempt, who.steps_key or "", lifetime.boot_id()))


def _follow(store: Any) -> None:
    try:
        leader = rendezvous.receive(store, _Meeting.stop)
    except (RuntimeError, ValueError, KeyError, TypeError):
        # The store has gone with rank 0, or somebody else has set the key.
        return
    if leader is None:
        # Rank 0 is not instrumented, or comes too late: this rank reports for itself.
        return
    who = process_identity.update(id=leader.run_id, attempt=leader.attempt, steps_key=leader.steps_key or None)
    if who.id == leader.run_id:
        launch.take_over(os.environ, leader.run_id, leader.attempt)
    if leader.boot_id and leader.boot_id == lifetime.boot_id():
        _Meeting.clock_offset = 0.0


def _finish() -> None:
    thread = _Meeting.thread
    _Meeting.stop.set()
    if thread is not None:
        thread.join(EXIT_PATIENCE)


def _observe_offset() -> Iterator[tuple[float, dict[str, Any]]]:
    if _Meeting.clock_offset is not None:
        yield _Meeting.clock_offset, {}


def _forget() -> None:
    _Meeting.thread, _Meeting.over, _Meeting.clock_offset = None, False, None
    _Meeting.stop = threading.Event()


lifecycle.after_fork_in_child(_forget)
