"""Runs a program of slime on a cluster of its own with two GPUs that do not exist: `python job.py PROGRAM OPTION ...`."""

from __future__ import annotations

import os
import runpy
import sys

import ray

if __name__ == "__main__":
    ray.init(num_cpus=8, num_gpus=2, include_dashboard=False)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.environ["SLIME"])
    runpy.run_path(sys.argv[0], run_name="__main__")
