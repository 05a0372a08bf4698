"""How long the collector takes to be healthy, what it holds in memory when idle, and how long `collector config` takes.

    python benchmarks/collector_start.py [--output FILE]

Each shipped role is started several times in turn, on new folders; memory is the resident set a few seconds after the
start, which counts the pages of the program itself. `otel-rl collector config` is timed with everything it does by
default: composing, checking this machine, and `otelcol-rl validate`. CPU times stand beside the others;
the difference is what a busy machine adds.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from collector_process import CONFIGURATION, Collector, binary, free_ports
from figures import finish

ROUNDS = 5
IDLE_SECONDS = 5.0
COMMAND = [Path(sys.executable).parent / "otel-rl", "collector", "config"]
ROLES: dict[str, tuple[list[str], list[str]]] = {
    "local": (["common.yaml", "local.yaml"], ["--role", "local"]),
    "agent": (["common.yaml", "agent.yaml"], ["--role", "agent", "--gateways", "2"]),
    "gateway": (["common.yaml", "gateway.yaml", "sinks/lgtm.yaml"], ["--role", "gateway", "--sink", "lgtm"]),
}


def _start(program: Path, role: str, folder: Path) -> tuple[float, float, float]:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    variables = {"OTEL_RL_COLLECTOR_GATEWAY": nowhere}
    files = [CONFIGURATION / name for name in ROLES[role][0]]
    with Collector(program, files, folder, variables) as collector:
        cpu_seconds = collector.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        return collector.seconds_to_healthy, cpu_seconds, collector.resident_mebibytes()


def _compose(role: str, folder: Path) -> tuple[float, float]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment |= {f"OTEL_RL_COLLECTOR_GATEWAY_{number}": f"127.0.0.1:{number}" for number in (1, 2)}
    environment |= {"OTEL_RL_COLLECTOR_GATEWAY": "127.0.0.1:1"}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*COMMAND, *ROLES[role][1]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"otel-rl collector config failed: {done.stderr}")
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(folder: Path) -> dict[str, list[float]]:
    """Seconds to healthy, MiB and seconds of the command, by role."""
    program = binary()
    samples: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for role in ROLES:
            where = folder / f"{role}-{number}"
            where.mkdir()
            seconds, cpu_seconds, mebibytes = _start(program, role, where)
            samples.setdefault(f"{role}_seconds_to_healthy", []).append(seconds)
            samples.setdefault(f"{role}_cpu_seconds_to_healthy", []).append(cpu_seconds)
            samples.setdefault(f"{role}_idle_mebibytes", []).append(mebibytes)
            seconds, cpu_seconds = _compose(role, where)
            samples.setdefault(f"{role}_config_seconds", []).append(seconds)
            samples.setdefault(f"{role}_config_cpu_seconds", []).append(cpu_seconds)
    return samples


def main() -> int:
    """Measure, print, and compare with the limits."""
    with tempfile.TemporaryDirectory() as folder:
        samples = measure(Path(folder))
    limits = {"seconds_to_healthy": 2.0, "idle_mebibytes": 160.0, "config_seconds": 1.0}
    figures: dict[str, dict[str, Any]] = {}
    for name, values in samples.items():
        figure = {"value": round(statistics.median(values), 3), "longest": round(max(values), 3)}
        kind = name.partition("_")[2]
        figures[name] = {**figure, "limit": limits[kind]} if kind in limits else figure
    return finish("collector_start", figures, samples, (__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
