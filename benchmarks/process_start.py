"""Start-up cost of child processes that import nothing instrumented.

    python benchmarks/process_start.py [--output FILE]

Runs ``python -c pass`` in turn under: no instrumentation; ours (policy ``all``, so the child is instrumented); ours
with the child outside the ``launchers`` policy; the official distro without instrumentors; the official distro with its
openai and langchain instrumentors. Wall time of the whole process; the official ones get exporter ``none``, ours its
default.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import time

from figures import bootstrap, environment, finish, instrumented, ratio_of_medians

ROUNDS = 25
OFFICIAL_INSTRUMENTORS = {"openai", "langchain"}


def _environment_of_a_child(directory: str, **variables: str) -> dict[str, str]:
    """Return what a child inherits from a program under ``opentelemetry-instrument``."""
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    return json.loads(instrumented("-c", show, folder=directory, **variables).splitlines()[-1])


def _official(directory: str, enabled: set[str]) -> dict[str, str]:
    installed = {point.name for point in importlib.metadata.entry_points(group="opentelemetry_instrumentor")}
    return _environment_of_a_child(
        directory,
        OTEL_PYTHON_DISTRO="distro",
        OTEL_PYTHON_CONFIGURATOR="configurator",
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=",".join(sorted(installed - enabled)),
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
        OTEL_LOGS_EXPORTER="none",
    )


def _run(variables: dict[str, str], directory: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=variables, cwd=directory, check=True)
    return time.perf_counter() - start


def measure(directory: str) -> dict[str, list[float]]:
    """Seconds per run, by variant."""
    environments = {
        "plain": environment(),
        "ours": _environment_of_a_child(directory, OTEL_RL_CHILDREN="all"),
        "ours_outside_policy": _environment_of_a_child(directory),
        "official_bare": _official(directory, set()),
        "official_genai": _official(directory, OFFICIAL_INSTRUMENTORS),
    }
    samples: dict[str, list[float]] = {name: [] for name in environments}
    for number in range(ROUNDS + 1):
        for name, variables in environments.items():
            seconds = _run(variables, directory)
            if number:  # the first round warms the file cache
                samples[name].append(seconds)
    return samples


def main() -> int:
    """Measure, print, and compare with the limits."""
    with tempfile.TemporaryDirectory() as directory:
        samples = measure(directory)
    rounds = list(zip(*(samples[name] for name in samples), strict=True))
    index = {name: position for position, name in enumerate(samples)}

    def pairs(first: str, second: str) -> list[tuple[float, float]]:
        return [(row[index[first]], row[index[second]]) for row in rounds]

    def added(drawn: list[tuple[float, ...]]) -> float:
        plain, ours, bare = (
            statistics.median(row[index[n]] for row in drawn) for n in ("plain", "ours", "official_bare")
        )
        return (ours - plain) / (bare - plain)

    figures = {
        "child_to_official_with_genai": {**ratio_of_medians(pairs("ours", "official_genai")), "limit": 0.15},
        "added_time_to_official_bare": {**bootstrap(rounds, added), "limit": 1.1},
        "outside_policy_to_plain": {**ratio_of_medians(pairs("ours_outside_policy", "plain")), "limit": 1.25},
    }
    for name, values in samples.items():
        figures[f"median_ms_{name}"] = {"value": round(statistics.median(values) * 1e3, 1)}
    return finish("process_start", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
