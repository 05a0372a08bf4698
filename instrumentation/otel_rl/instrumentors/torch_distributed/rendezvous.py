"""Run id and attempt of rank 0, told to the other ranks through the store that ``init_process_group`` made.

The store is the program's. We use a clone, which has a connection of its own, on a thread of our own: no thread of the
program waits, and its time-out and pending operations stay as they are. Rank 0 sets one key (:data:`KEY`), each other
rank that does not know the run id makes one ``get`` with a time limit. Nobody polls.

One key without a generation is enough. It tells which launch the ranks belong to, and that is the same for every
process group over one store; torchrun makes a new store for each restart.

Only a ``TCPStore`` is used. A ``HashStore`` connects threads of one process. A clone of a ``FileStore`` counts as one
more rank, and the store removes its file when that many are gone (torch 2.13, ``FileStore::~FileStore``).
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

#: The only key of ours in the program's store.
KEY = "otel_rl/identity"
#: Longest wait for rank 0, in seconds. The ranks need not leave ``init_process_group`` together: with NCCL each does as
#: soon as it has reached the store. A rank whose partner is not instrumented waits in vain, once, on our thread.
TIME_LIMIT = 60.0


class Identity(NamedTuple):
    """Value of :data:`KEY`."""

    run_id: str
    attempt: str
    #: See :attr:`otel_rl.process.process_identity.Run.steps_key`.
    steps_key: str
    #: Identifies the machine's kernel: processes that share it share a clock.
    boot_id: str


def boot_id() -> str:
    """Random id of this kernel's boot; empty where there is none (not Linux)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def can_clone(store: Any) -> bool:
    """True for a ``TCPStore``, prefixed or not, of a torch that can clone stores."""
    innermost = getattr(store, "_underlying_non_prefix_store", store)
    return isinstance(innermost, sys.modules["torch.distributed"].TCPStore) and hasattr(store, "clone")


def publish(store: Any, identity: Identity) -> None:
    """Rank 0: set the key. Connects, so: on a thread of our own."""
    store.clone().set(KEY, json.dumps(identity._asdict()))


def receive(store: Any, time_limit: float = TIME_LIMIT) -> Identity:
    """Other ranks: wait for the key. Blocks, so: on a thread of our own.

    Raises:
        RuntimeError: after ``time_limit`` seconds, or where the store has gone (both are torch's ``DistError``).
        ValueError: for a value that is not ours.
    """
    clone = store.clone()
    clone.set_timeout(timedelta(seconds=time_limit))
    found = json.loads(bytes(clone.get(KEY)))
    return Identity(*(str(found[name]) for name in Identity._fields))
