"""What happens once a process group stands: rank and run id become known, clocks are compared."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.torch_distributed import rendezvous
from otel_rl.process import process_identity
from otel_rl.semconv import metrics
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from otel_rl.telemetry import Scope

#: Backends whose store connects nobody.
BACKENDS_WITHOUT_STORE = frozenset({"fake", "mpi"})


class _Clock:
    """How often a group was set up here, and our wall clock minus rank 0's in seconds (None: not known)."""

    generation = 0
    offset: float | None = None


def announce(module: ModuleType, scope: Scope) -> None:
    """Called after ``init_process_group`` in every rank; milliseconds, a few seconds at most if a rank is missing."""
    rank, world_size = module.get_rank(), module.get_world_size()
    process_identity.update(rank=rank, world_size=world_size)
    _Clock.generation += 1
    if world_size > 1 and module.get_backend() not in BACKENDS_WITHOUT_STORE:
        meeting = rendezvous.Rendezvous(module._get_default_store(), _Clock.generation)  # noqa: SLF001 - no public access
        _Clock.offset = _lead(meeting, world_size) if rank == 0 else _follow(meeting)
    if scope.enabled:
        scope.observe(metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET, _observe_offset)


def _lead(meeting: rendezvous.Rendezvous, world_size: int) -> float:
    meeting.publish(process_identity.current(), rendezvous.boot_id())
    if _spans_machines(world_size):
        meeting.answer(world_size - 1)
    return 0.0


def _follow(meeting: rendezvous.Rendezvous) -> float | None:
    leader = meeting.receive()
    if leader is None:
        return None
    process_identity.update(id=leader.run_id, attempt=leader.attempt)
    if leader.boot_id and leader.boot_id == rendezvous.boot_id():
        offset: float | None = 0.0
    else:
        offset = meeting.measure_offset()
    meeting.done()
    return offset


def _spans_machines(world_size: int) -> bool:
    """False where the launcher says that all ranks are on this machine; rank 0 then waits for nobody."""
    return os.environ.get("LOCAL_WORLD_SIZE") != str(world_size)


def _observe_offset() -> Iterator[tuple[float, dict[str, Any]]]:
    if _Clock.offset is not None:
        yield _Clock.offset, {}


def _forget() -> None:
    _Clock.generation, _Clock.offset = 0, None


lifecycle.after_fork_in_child(_forget)
