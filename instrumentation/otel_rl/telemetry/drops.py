"""Every item that is not delivered is counted here, by signal and reason (feeds ``rl.telemetry.dropped``).

Counting takes no lock: a signal handler, a finaliser or a fork handler of the program may record, and drop, while its
own thread counts.
"""

from __future__ import annotations

import threading
from collections import deque

#: Counted, but not yet added up. ``append`` and ``popleft`` of a deque are atomic.
_counted: deque[tuple[str, str, int]] = deque()
#: Entries in ``_counted`` at which a counting thread adds them up.
_FOLD = 1024
# Re-entrant: a signal handler may ask for a snapshot on a thread that is adding up.
_lock = threading.RLock()
_counts: dict[tuple[str, str], int] = {}
_folding = False


def count(signal: str, reason: str, number: int = 1) -> None:
    """Count ``number`` items of ``signal`` (traces, metrics, logs, context) as dropped for ``reason``."""
    if number <= 0:
        return
    _counted.append((signal, reason, number))
    if len(_counted) >= _FOLD and _lock.acquire(blocking=False):
        try:
            _fold()
        finally:
            _lock.release()


def _fold() -> None:
    """Add up the counts; the caller holds the lock. A signal handler that interrupts it returns at once."""
    global _folding
    if _folding:
        return
    _folding = True
    try:
        while _counted:
            signal, reason, number = _counted.popleft()
            _counts[signal, reason] = _counts.get((signal, reason), 0) + number
    finally:
        _folding = False


def snapshot() -> dict[tuple[str, str], int]:
    """Return drops so far: ``{(signal, reason): items}``."""
    with _lock:
        _fold()
        return dict(_counts)


def reset() -> None:
    """Forget all counts (a forked child starts its own)."""
    global _lock, _folding
    # The parent may have held the lock at the fork.
    _lock, _folding = threading.RLock(), False
    _counted.clear()
    _counts.clear()
