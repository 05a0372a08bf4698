"""Every item that is not delivered is counted here, by signal and reason (feeds ``rl.telemetry.dropped``)."""

from __future__ import annotations

import threading

# Re-entrant: a signal handler or finalizer of the program may record, and drop, on a thread that is counting.
_lock = threading.RLock()
_counts: dict[tuple[str, str], int] = {}


def count(signal: str, reason: str, number: int = 1) -> None:
    """Count ``number`` items of ``signal`` (traces, metrics, logs, context) as dropped for ``reason``."""
    if number <= 0:
        return
    with _lock:
        _counts[signal, reason] = _counts.get((signal, reason), 0) + number


def snapshot() -> dict[tuple[str, str], int]:
    """Drops so far: ``{(signal, reason): items}``."""
    with _lock:
        return dict(_counts)


def reset() -> None:
    """Forget all counts (a forked child starts its own)."""
    global _lock
    # The parent may have held the lock at the fork.
    _lock = threading.RLock()
    _counts.clear()
