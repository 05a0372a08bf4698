"""Timing of NCCL's collectives by PyTorch: switched on where the program asks for it, and read.

``TORCH_NCCL_ENABLE_TIMING`` counts when a process group is made, so it is set before. What the program or its
user has set stays. No ``Work`` is kept, and no completion hook is set, which PyTorch deprecates.

PyTorch 2.13 asks events of collectives in flight without its lock (``FlightRecorder::dump_entries``). Its cache of
events keeps them alive meanwhile: nothing is read where the cache is off, or before it became the default.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.collectives import device_times
from otel_rl.collectives.device_times import DeviceTimes
from otel_rl.core import settings
from otel_rl.core.guard import logger
from otel_rl.ranks.model.groups import Group
from otel_rl.semconv.attributes import TorchDistributedTimingValues as Timing
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from types import ModuleType

    from otel_rl.telemetry import Scope

_TIMING = ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING")
_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_CACHE = "TORCH_NCCL_CUDA_EVENT_CACHE"
_BLOCKING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
#: What PyTorch reads as no (``getCvarBool``).
_NO = frozenset({"0", "n", "no", "f", "false"})
#: Characters that the ranks of a group may take.
_ROOM = 200
#: The oldest PyTorch whose flight recorder is read.
_OLDEST = (2, 8)
_times: DeviceTimes | None = None
_told = False


def switch_on(environ: MutableMapping[str, str]) -> None:
    """Let PyTorch time the collectives of the groups that are made from here on."""
    if not any(name in environ for name in _TIMING):
        environ[_TIMING[0]] = "1"


def group_made(module: ModuleType, scope: Scope) -> None:
    """Begin to read: NCCL is a back end of the default group. Say so where collectives are not timed."""
    global _times, _told
    if _times is not None:
        _times.made_anew()
        return
    if _told:
        return
    state, reason = _state()
    if reason:
        logger.warning("otel-rl: collectives of NCCL are not timed: %s", reason)
    if state == Timing.ON:
        _times = DeviceTimes(scope, _dump, functools.partial(_groups, module), _is_capturing)
        _times.start()
    else:
        _told = True
        device_times.publish(scope, state)


def groups_end(group: Any = None, *_: Any, **__: Any) -> None:
    """Publish what is left, where the program destroys all groups."""
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]
    if _times is not None and group in (None, c10d.GroupMember.WORLD):
        _times.read()


def stop() -> None:
    """Read no more; in a forked child, which has none of its parent's collectives, too."""
    global _times
    if _times is not None:
        _times.stop()
    _times = None


def refusal(environ: Mapping[str, str]) -> str:
    """Return the variable of PyTorch, with its value, that keeps the times from being read; empty: none does."""
    for names, wrong in ((_TIMING, _NO), (_BUFFER, {"0"}), ((_CACHE,), _NO)):
        for name in names:
            if environ.get(name, "").strip().lower() in wrong:
                return f"{name}={environ[name]}"
    for name in _BLOCKING:
        if environ.get(name, "").strip().lower() not in {"", *_NO}:
            # No thread asks whether a collective is over.
            return f"{name}={environ[name]}"
    return ""


def can_be_asked(version: str) -> bool:
    """Return whether the flight recorder of this version of PyTorch can be read."""
    return tuple(map(int, version.split(".")[:2])) >= _OLDEST


def _state() -> tuple[str, str]:
    """Return the state, and why it is not what the user asked for."""
    if settings.current().nccl_timing == "off":
        return Timing.OFF, ""
    if refused := refusal(os.environ):
        return Timing.REFUSED, refused
    torch: Any = sys.modules["torch"]
    if not (can_be_asked(torch.__version__) and hasattr(_c10d(), "_dump_nccl_trace")):
        return Timing.UNAVAILABLE, f"PyTorch {torch.__version__} cannot be asked"
    return Timing.ON, ""


def _c10d() -> Any:
    return sys.modules["torch"]._C._distributed_c10d  # noqa: SLF001 - no public access


def _dump() -> bytes:
    # With collectives, without stacks, not only those in flight.
    dumped: bytes = _c10d()._dump_nccl_trace(True, False, False)  # noqa: SLF001 - as above
    return dumped


def _groups(module: ModuleType, generation: int) -> dict[str, str]:
    texts = {}
    for group in list(module._world.pg_map):  # noqa: SLF001 - as above
        name = str(group.group_name)
        ranks = module.get_process_group_ranks(group)
        texts[name] = str(Group.of(name, str(group.group_desc), ranks, generation, _ROOM))
    return texts


def _is_capturing() -> bool:
    cuda: Any = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


lifecycle.after_fork_in_child(stop)
