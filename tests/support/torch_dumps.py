"""Dumps in the format of PyTorch's flight recorder (version 2.10, of torch 2.13), as with NCCL."""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DEFAULT = ("0", "default_pg")
FRAMES = [
    {"name": "method", "filename": "/site-packages/otel_rl/collectives/recorder.py", "line": 182},
    {"name": "all_reduce", "filename": "/site-packages/torch/distributed/distributed_c10d.py", "line": 3000},
    {"name": "train", "filename": "/home/user/train.py", "line": 12},
    {"name": "<module>", "filename": "/home/user/train.py", "line": 20},
]


def entry(number: int, operation: str = "all_reduce", state: str = "completed", **other: Any) -> dict[str, Any]:
    """One entry; ``shape`` and ``dtype`` are those of its only tensor."""
    created = other.pop("created", None) or time.time_ns()
    shape, dtype = other.pop("shape", [4]), other.pop("dtype", "Float")
    is_over = state == "completed"
    return {
        "frames": FRAMES,
        "record_id": number - 1,
        "pg_id": 0,
        "process_group": DEFAULT,
        "thread_name": "python",
        "thread_id": "140",
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{operation}",
        "time_created_ns": created,
        "input_sizes": [shape],
        "input_dtypes": [dtype],
        "output_sizes": [shape],
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": created if state != "scheduled" else None,
        "time_discovered_completed_ns": created if is_over else None,
        "retired": is_over,
        "timeout_ms": 600000,
        "is_p2p": False,
        **other,
    }


def dump(issued: list[dict[str, Any]], world_size: int = 3, **other: Any) -> dict[str, Any]:
    """The content of one file."""
    ranks = ", ".join(map(str, range(world_size)))
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": f"[{ranks}]"}},
        "comm_lib_version": "2.29.7",
        "pg_status": {},
        "entries": issued,
        **other,
    }


def write(folder: Path, rank: int, entries: Sequence[dict[str, Any]], prefix: str = "trace_", **other: Any) -> Path:
    """Write the dump of ``rank``; PyTorch appends the rank to a prefix."""
    path = folder / f"{prefix}{rank}"
    path.write_bytes(pickle.dumps(dump(list(entries), **other), protocol=2))
    return path
