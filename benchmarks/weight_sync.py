"""Seconds that the sums of weights take, by which `OTEL_RL_SYNC_CHECK` compares trainer and engine.

    python benchmarks/weight_sync.py [--output FILE]

On one core, for a billion parameters. The engine and the trainer take that each.
"""

from __future__ import annotations

import sys
import time

import torch
from figures import finish

from otel_rl.weight_sync.tensor_sums import sums_of

SIDE, TENSORS = 4096, 4


def seconds(dtype: torch.dtype) -> float:
    """Seconds to sum up a billion parameters."""
    tensors = [torch.randn(SIDE, SIDE).to(dtype) for _ in range(TENSORS)]
    sums_of(tensors)
    began = time.perf_counter()
    sums_of(tensors)
    return (time.perf_counter() - began) / (TENSORS * SIDE * SIDE) * 1e9


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    torch.set_num_threads(1)
    figures = {
        f"{dtype}: seconds per billion parameters": {"value": round(seconds(dtype), 2)}
        for dtype in (torch.float32, torch.bfloat16)
    }
    return finish("weight_sync", figures, [], __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
