"""Runs a program of slime without GPUs: `python job.py PROGRAM OPTION ...`.

On a cluster of its own with two GPUs that do not exist. The program, the manager, the rank and what it trains are
slime's and Megatron's own; see `slime_cpu` and `megatron_cpu` for what is replaced below them.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import ray
import slime_cpu

if __name__ == "__main__":
    ray.init(
        num_cpus=8,
        num_gpus=2,
        include_dashboard=False,
        runtime_env={"worker_process_setup_hook": "slime_cpu.install"},
    )
    slime_cpu.install()
    from megatron_cpu import MegatronTrainRayActor
    from slime.backends.megatron_utils import actor

    actor.MegatronTrainRayActor = MegatronTrainRayActor
    sys.argv = sys.argv[1:]
    runpy.run_path(str(Path(os.environ["SLIME"]) / sys.argv[0]), run_name="__main__")
