"""Environment of the benchmarks' GRPO runs."""

from __future__ import annotations

import os
from pathlib import Path


def environment(data_directory: str) -> dict[str, str]:
    """Variables for a run that records into ``data_directory`` and uses one processor per rank."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return {
        **inherited,
        "OTEL_RL_DATA_DIR": data_directory,
        "OTEL_RL_QUIET": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        # The code of this checkout, whatever the environment has installed.
        "PYTHONPATH": os.pathsep.join(
            str(Path(__file__).parents[1] / name) for name in ("examples", "instrumentation")
        ),
    }
