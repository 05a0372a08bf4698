"""Entries of PyTorch's flight recorder that have a duration: what is new in each dump of this process."""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple, TypeGuard

from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation
from otel_rl.telemetry.attribute_values import text

#: Longest name of a group, in characters: PyTorch's are numbers or hashes.
_LONGEST_NAME = 64
#: What PyTorch calls collectives that keep their ranks together, without the backend: these show who waits. The name of
#: a barrier begins with ``all_reduce``.
_OPERATIONS = (
    ("all_reduce_barrier", Operation.BARRIER),
    ("barrier", Operation.BARRIER),
    ("all_reduce", Operation.ALL_REDUCE),
    ("allreduce", Operation.ALL_REDUCE),
    ("all_gather", Operation.ALL_GATHER),
    ("_all_gather_base", Operation.ALL_GATHER),
    ("reduce_scatter", Operation.REDUCE_SCATTER),
    ("_reduce_scatter_base", Operation.REDUCE_SCATTER),
    ("all_to_all", Operation.ALL_TO_ALL),
    ("alltoall", Operation.ALL_TO_ALL),
)
_LAST_MOMENT = 1 << 63
_LONGEST_MS = 1e9


class TimedCollective(NamedTuple):
    """A collective of one rank, as the device timed it."""

    #: Name of its process group, the same in all ranks of it.
    group: str
    #: Number in the group.
    number: int
    operation: str
    #: From the moment when this rank's device was ready until the collective was over there.
    seconds: float
    #: When the host enqueued it, in ns since the epoch.
    created: int


class NewEntries:
    """Gives each entry once: when it has a duration. An entry that is not over is asked for again in the next dump."""

    def __init__(self) -> None:
        self._newest = -1
        #: Entries up to the newest one that were not over: at most as many as the recorder holds.
        self._open: set[int] = set()

    def read(self, dump: bytes) -> tuple[list[TimedCollective], int]:
        """Return what is new, in the order in which it was enqueued, and how many collectives at most are missing.

        Those are overwritten, of which some may say nothing of who waits, or have ended without a duration.

        Raises:
            Exception: where ``dump`` is none.
        """
        document = _PlainReader(io.BytesIO(dump)).load()
        entries = [entry for entry in document["entries"] if isinstance(entry, dict) and _is_id(entry.get("record_id"))]
        if not entries:
            return [], 0
        ids = [entry["record_id"] for entry in entries]
        if max(ids) < self._newest:
            # PyTorch has emptied it, and begins at 0.
            self._newest, self._open = -1, set()
        missed = max(min(ids) - self._newest - 1, 0) + sum(number < min(ids) for number in self._open)
        timed, still_open = [], set()
        for entry in entries:
            number = entry["record_id"]
            if number <= self._newest and number not in self._open:
                continue
            operation = _operation(entry)
            if operation is None:
                continue
            collective = _timed(entry, operation)
            if collective is not None:
                timed.append(collective)
            elif entry.get("retired") is True:
                missed += 1
            else:
                still_open.add(number)
        self._newest, self._open = max(self._newest, *ids), still_open
        return timed, missed


class _PlainReader(pickle.Unpickler):
    """Reads plain values: a dump has no others."""

    def find_class(self, module: str, name: str) -> Any:
        """No class and no function has a place in a dump."""
        raise pickle.UnpicklingError(f"{module}.{name}")


def _timed(entry: dict[str, Any], operation: str) -> TimedCollective | None:
    """Return None where it has no duration, or is not what an entry is."""
    group, number, created = (entry.get(key) for key in ("process_group", "collective_seq_id", "time_created_ns"))
    milliseconds = entry.get("duration_ms")
    # What is not a number compares as False.
    if not isinstance(milliseconds, int | float) or not 0 <= milliseconds < _LONGEST_MS:
        return None
    if not (isinstance(group, list | tuple) and group and isinstance(group[0], str)):
        return None
    if not (_is_id(number) and _is_id(created)):
        return None
    return TimedCollective(text(group[0], _LONGEST_NAME), number, operation, round(milliseconds / 1e3, 7), created)


def _operation(entry: dict[str, Any]) -> str | None:
    """Return None where it says nothing of who waits."""
    name = entry.get("profiling_name")
    if not isinstance(name, str) or entry.get("is_p2p") is True:
        return None
    own = name.rpartition(":")[2]
    return next((operation for start, operation in _OPERATIONS if own.startswith(start)), None)


def _is_id(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _LAST_MOMENT
