"""The size of a message."""

from __future__ import annotations

from typing import Any

_LISTS = (list, tuple)


def payload_bytes(payload: Any) -> int:
    """Bytes of a tensor or of tensors in (nested) lists."""
    # Not `list | tuple`, which makes an object at each call: this is on hot paths.
    if isinstance(payload, _LISTS):
        size = 0
        for part in payload:
            size += payload_bytes(part)
        return size
    try:
        return int(payload.nbytes)
    except RuntimeError:
        # A sparse tensor has no size of its own, its parts have.
        return int(payload._indices().nbytes + payload._values().nbytes)  # noqa: SLF001 - public ones need coalescing
