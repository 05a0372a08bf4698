"""What the benchmarks share: how a program is started, ratios with their bounds, the form of a result file."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PACKAGES = (
    "otel-rl",
    "opentelemetry-sdk",
    "opentelemetry-distro",
    "opentelemetry-instrumentation-genai-openai",
    "opentelemetry-instrumentation-genai-langchain",
    "openai",
    "torch",
    "trl",
)
_BOOTSTRAP_DRAWS = 2000
BIN = Path(sys.executable).parent


def environment(**variables: str) -> dict[str, str]:
    """Variables of this process without those of OpenTelemetry, ours and Python's, and with ``variables``."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PYTHON"))} | variables


def instrumented(*arguments: str | Path, folder: str | Path, **variables: str) -> str:
    """Run Python with ``arguments`` under ``opentelemetry-instrument`` in ``folder``; what it has printed."""
    command = [BIN / "opentelemetry-instrument", sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment(**variables), cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def samples_of(*arguments: str) -> Any:
    """Return what a program prints as JSON; our distro records it into files, and instruments nothing by itself."""
    settings = {"OTEL_RL_QUIET": "1", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"}
    with tempfile.TemporaryDirectory() as folder:
        samples = json.loads(instrumented(*arguments, folder=folder, OTEL_RL_DATA_DIR=folder, **settings))
        if not any(Path(folder).rglob("traces-*")):
            raise SystemExit("nothing was written to the file store")
    return samples


def measure(*arguments: str | Path) -> tuple[float, float]:
    """Peak of memory in MiB and CPU seconds of a command of otel-rl."""
    process = subprocess.Popen([BIN / "otel-rl", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"otel-rl {arguments[0]} ended with {process.returncode}")
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def machine() -> dict[str, Any]:
    """Interpreter, processors and package versions that the figures belong to."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "python": platform.python_version(),
        "processor": model or platform.machine(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "packages": versions,
    }


def bootstrap(values: Sequence[Any], statistic: Callable[[list[Any]], float]) -> dict[str, float]:
    """``statistic`` of ``values`` with the bounds of its 95 % bootstrap interval."""
    pick = random.Random(0)  # noqa: S311 - repeatable on purpose
    draws = sorted(statistic(pick.choices(values, k=len(values))) for _ in range(_BOOTSTRAP_DRAWS))
    return {
        "value": round(statistic(list(values)), 5),
        "lower_95": round(draws[int(0.025 * _BOOTSTRAP_DRAWS)], 5),
        "upper_95": round(draws[int(0.975 * _BOOTSTRAP_DRAWS)], 5),
    }


def ratio_of_medians(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Median of the first members over the median of the second, pairs drawn together."""
    return bootstrap(
        pairs, lambda drawn: statistics.median(a for a, _ in drawn) / statistics.median(b for _, b in drawn)
    )


def finish(name: str, figures: dict[str, Any], samples: Any, description: str) -> int:
    """Print the figures and, with ``--output FILE``, write them with every sample. Returns the exit status.

    ``figures`` maps a name to ``{"value": ..., "limit": ..., ...}``; a figure over its ``limit``, or under its
    ``at_least``, makes the status 1.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, help="write figures, samples and machine as JSON to this file")
    options, _ = parser.parse_known_args()
    for figure in figures.values():
        judged = figure.get("judged", figure["value"])
        if "limit" in figure:
            figure["within_limit"] = judged <= figure["limit"]
        if "at_least" in figure:
            figure["within_limit"] = judged >= figure["at_least"]
    report = {"benchmark": name, "figures": figures, "machine": machine()}
    print(json.dumps(report, indent=2))
    if options.output:
        options.output.write_text(json.dumps({**report, "samples": samples}) + "\n")
    return 0 if all(figure.get("within_limit", True) for figure in figures.values()) else 1
