"""Run id and attempt of rank 0, told to the other ranks through the store that ``init_process_group`` made.

The store is the program's. We use a clone, which has a connection of its own, on a thread of our own: no thread of the
program waits, and its time-out and pending operations stay as they are. Rank 0 sets one key (:data:`KEY`), each other
rank that does not know the run id reads it, mostly at the first attempt.

The generation in the key is the number of elastic restarts, which all ranks know alike. Process groups need none: the
key tells which launch the ranks belong to, and that is the same for every group over one store.

Only a ``TCPStore`` is used. A ``HashStore`` connects threads of one process. A clone of a ``FileStore`` counts as one
more rank, and the store removes its file when that many are gone (torch 2.13, ``FileStore::~FileStore``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import threading

#: The only key of ours in the program's store, see :func:`key`.
KEY = "otel_rl/identity"
#: Longest wait for rank 0, in seconds. The ranks need not leave ``init_process_group`` together: with NCCL each does as
#: soon as it has reached the store. A rank whose partner is not instrumented waits in vain, once, on our thread.
TIME_LIMIT = 60.0
#: Seconds between two attempts; they double. A rank whose partner is silent makes about 20 in all.
SHORTEST_INTERVAL = 0.01
LONGEST_INTERVAL = 5.0
#: Seconds that a single request may take.
REQUEST_LIMIT = 5.0


class Identity(NamedTuple):
    """Value of :data:`KEY`."""

    run_id: str
    attempt: str
    #: See :attr:`otel_rl.process.process_identity.Run.steps_key`.
    steps_key: str
    #: Identifies the machine's kernel: processes that share it share a clock.
    boot_id: str


def key() -> str:
    """Return the key of this elastic restart: torchrun's agent may keep one store for all of them (torch 2.13)."""
    return f"{KEY}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def can_clone(store: Any) -> bool:
    """Return whether this is a ``TCPStore``, prefixed or not, of a torch that can clone stores."""
    innermost = getattr(store, "_underlying_non_prefix_store", store)
    return isinstance(innermost, sys.modules["torch.distributed"].TCPStore) and hasattr(store, "clone")


def publish(store: Any, identity: Identity) -> None:
    """Rank 0: set the key. Connects, so: on a thread of our own."""
    store.clone().set(key(), json.dumps(identity._asdict()))


def receive(store: Any, stop: threading.Event, time_limit: float = TIME_LIMIT) -> Identity | None:
    """Other ranks: wait for the key, on a thread of our own; None after ``time_limit`` seconds or with ``stop`` set.

    Asks at once and then at doubled intervals, with calls that return at once. A ``get`` that blocks in C++ while the
    interpreter finalizes aborts the process, exit status 134: github.com/python/cpython/issues/87135 (before 3.14).

    Raises:
        RuntimeError: where the store has gone (torch's ``DistError``).
        ValueError: for a value that is not ours.
    """
    clone = store.clone()
    clone.set_timeout(timedelta(seconds=REQUEST_LIMIT))
    deadline = time.monotonic() + time_limit
    interval = SHORTEST_INTERVAL
    while not clone.check([key()]):
        if time.monotonic() >= deadline or stop.wait(interval):
            return None
        interval = min(interval * 2, LONGEST_INTERVAL)
    fields = json.loads(bytes(clone.get(key())))
    return Identity(*(str(fields[name]) for name in Identity._fields))
