"""What the Makefile hands to the programs that it starts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")


def make(folder, *arguments, **variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "-f", ROOT / "Makefile", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environ | variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OTEL_RL_CACHE_DIR": "/a/cache"}, "/a/cache"),
        ({"XDG_CACHE_HOME": "/home/x/.cache"}, "/home/x/.cache/otel-rl"),
        ({"HOME": "/home/y", "XDG_CACHE_HOME": ""}, "/home/y/.cache/otel-rl"),
    ],
    ids=["named", "of the desktop", "of the user"],
)
def test_programs_are_told_the_cache_folder(tmp_path, variables, expected):
    told = make(tmp_path, "-s", "--eval", 'told: ; @echo "$$OTEL_RL_CACHE_DIR"', "told", **variables)

    assert told == f"{expected}\n"


def test_a_checkout_whose_path_has_a_blank_stays_one_word(tmp_path):
    folder = tmp_path / "my otel-rl"
    (folder / ".venv").mkdir(parents=True)
    (folder / "tests" / "constraints").mkdir(parents=True)
    for name in ("pyproject.toml", "tests/constraints/latest.txt", ".venv/.demo", ".venv/.test"):
        (folder / name).touch()
    targets = ("demo", "test-latest", "test-faults", "test-hosts", "test-stack")
    words = [word for line in make(folder, "--dry-run", *targets).splitlines() for word in _words(line)]

    assert f"OTEL_RL_FAULTS_RESULTS={folder}/benchmarks/results/collector_faults.json" in words
    assert not [word for word in words if word.startswith("otel-rl/") and word.endswith(".json")]
    assert any(word.startswith(f"PATH={folder}/.venv/bin:") for word in words)


def _words(line):
    try:
        return shlex.split(line.rstrip("\\"))
    except ValueError:
        return []
