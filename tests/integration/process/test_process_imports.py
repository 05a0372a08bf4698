"""What a Python process imports that does nothing: the part of its start-up cost that is the same on every machine.

The time it takes is measured by benchmarks/process_start.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from process_support import BOOTSTRAP, Programs

SHOW_MODULES = "import sys; print(*sys.modules)"
OURS = {"PYTHONPATH": str(BOOTSTRAP), "OTEL_RL_RUN_ID": "run", "OTEL_RL_DATA_DIR": os.devnull}
OFFICIAL = {
    "OTEL_PYTHON_DISTRO": "distro",
    "OTEL_PYTHON_CONFIGURATOR": "configurator",
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*",
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}
#: What the decision itself takes: our sitecustomize, the standard library's way to look for the one that it hides.
DECISION = {
    "__future__",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
    "importlib.machinery",
    "sitecustomize",
    "warnings",
}


def imported(programs: Programs, **environ: str) -> set[str]:
    """Modules of a process that does nothing else."""
    done = programs.plain(SHOW_MODULES, **environ)
    assert done.code == 0, done.err
    return set(done.out.split())


def test_child_outside_the_policy_imports_only_what_the_decision_takes(programs: Programs) -> None:
    assert imported(programs, **OURS) - imported(programs) <= DECISION


def test_recording_child_imports_no_more_modules_than_the_official_distro(programs: Programs) -> None:
    upstream = pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation")
    recording = imported(programs, **OURS, OTEL_RL_CHILDREN="all")
    official = imported(programs, PYTHONPATH=str(Path(upstream.__file__).parent), **OFFICIAL)

    assert "otel_rl.distro" in recording
    assert "opentelemetry.sdk.trace" in official
    assert len(recording) <= len(official)


def test_a_process_that_imports_no_library_loads_no_instrumentor(programs: Programs) -> None:
    recording = imported(programs, **OURS, OTEL_RL_CHILDREN="all")

    assert "otel_rl.distro.loader" in recording
    assert {name for name in recording if name.startswith("otel_rl.instrumentors")} == set()
