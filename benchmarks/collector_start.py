"""How long the collector takes to be healthy, what it holds in memory when idle, and how long `collector config` takes.

    python benchmarks/collector_start.py [--output FILE]

Each shipped role is started several times in turn, on new folders; memory is the resident set a few seconds after the
start, which counts the pages of the program itself. `otel-rl collector config` is timed with everything it does by
default: composing, checking this machine, and `otelcol-rl validate`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from collector_process import CONFIGURATION, Collector, binary, free_ports
from figures import BIN, environment, finish

ROUNDS = 5
IDLE_SECONDS = 5.0
COMMAND = [BIN / "otel-rl", "collector", "config"]
ROLES: dict[str, tuple[list[str], list[str]]] = {
    "local": (["common.yaml", "local.yaml"], ["--role", "local"]),
    "agent": (["common.yaml", "agent.yaml"], ["--role", "agent", "--gateways", "2"]),
    "gateway": (["common.yaml", "gateway.yaml", "sinks/lgtm.yaml"], ["--role", "gateway", "--sink", "lgtm"]),
}


def _start(program: Path, role: str, folder: Path) -> tuple[float, float]:
    variables = {"OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{free_ports(1)[0]}"}
    files = [CONFIGURATION / name for name in ROLES[role][0]]
    with Collector(program, files, folder, variables) as collector:
        time.sleep(IDLE_SECONDS)
        return collector.seconds_to_healthy, collector.resident_mebibytes()


def _compose(role: str, folder: Path) -> float:
    gateways = {f"OTEL_RL_COLLECTOR_GATEWAY_{number}": f"127.0.0.1:{number}" for number in (1, 2)}
    variables = environment(OTEL_RL_COLLECTOR_GATEWAY="127.0.0.1:1", **gateways)
    begin = time.perf_counter()
    done = subprocess.run(
        [*COMMAND, *ROLES[role][1]], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"otel-rl collector config failed: {done.stderr}")
    return time.perf_counter() - begin


def measure(folder: Path) -> dict[str, list[float]]:
    """Seconds to healthy, MiB and seconds of the command, by role."""
    program = binary()
    samples: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for role in ROLES:
            where = folder / f"{role}-{number}"
            where.mkdir()
            seconds, mebibytes = _start(program, role, where)
            samples.setdefault(f"{role}_seconds_to_healthy", []).append(seconds)
            samples.setdefault(f"{role}_idle_mebibytes", []).append(mebibytes)
            samples.setdefault(f"{role}_config_seconds", []).append(_compose(role, where))
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
