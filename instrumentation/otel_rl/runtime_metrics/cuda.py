"""The CUDA allocator of PyTorch and pinned memory, where the program has begun to use CUDA."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlCudaMemoryStateValues as State

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES = {
    State.ALLOCATED: "allocated_bytes.all.current",
    State.RESERVED: "reserved_bytes.all.current",
    State.INACTIVE: "inactive_split_bytes.all.current",
}
PEAK = "allocated_bytes.all.peak"
OUT_OF_MEMORY = "num_ooms"
RETRIES = "num_alloc_retries"
_PINNED = "allocated_bytes.current"


def devices() -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and statistics of each device on which PyTorch has reserved memory, or failed to.

    These are sums of the allocator: reading them waits for no device and makes no context.
    """
    cuda = _cuda()
    if cuda is None:
        return
    for number in range(cuda.device_count()):
        statistics = cuda.memory_stats(number)
        if statistics.get("reserved_bytes.all.peak") or statistics.get(OUT_OF_MEMORY):
            yield number, statistics


def pinned() -> int | None:
    """Return the bytes of host memory that PyTorch has pinned; None before PyTorch 2.6."""
    cuda = _cuda()
    if cuda is None or not hasattr(cuda, "host_memory_stats"):
        return None
    size: int | None = cuda.host_memory_stats().get(_PINNED)
    return size


def _cuda() -> Any:
    """Return ``torch.cuda`` once the program uses it: we never initialise a device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None
