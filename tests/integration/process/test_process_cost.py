"""What a Python process costs that does nothing: CPU time, interleaved, the least of several."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from process_support import BOOTSTRAP, Programs

ROUNDS = 9
OFFICIAL = {
    "OTEL_PYTHON_DISTRO": "distro",
    "OTEL_PYTHON_CONFIGURATOR": "configurator",
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*",
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}


def cpu_seconds(environ: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], env=environ, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Least CPU seconds of each kind of process."""
    programs = Programs(tmp_path_factory.mktemp("cost"))
    upstream = pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation")
    ours = {"PYTHONPATH": str(BOOTSTRAP), "OTEL_RL_RUN_ID": "run", "OTEL_RL_DATA_DIR": os.devnull}
    kinds = {
        "plain": {},
        "outside": ours,
        "recording": {**ours, "OTEL_RL_CHILDREN": "all"},
        "official": {"PYTHONPATH": str(Path(upstream.__file__).parent), **OFFICIAL},
    }
    measured: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, environ in kinds.items():
            measured[kind].append(cpu_seconds({**programs.environ, **environ}))
    return {kind: min(values) for kind, values in measured.items()}


def test_child_outside_the_policy_costs_what_plain_python_costs(costs: dict[str, float]) -> None:
    assert costs["outside"] / costs["plain"] <= 1.25


def test_recording_child_adds_no_more_than_the_official_distro(costs: dict[str, float]) -> None:
    assert (costs["recording"] - costs["plain"]) / (costs["official"] - costs["plain"]) <= 1.1
