"""What the Makefile hands to the programs that it starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")


def run_make(folder, *arguments, **variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "-f", ROOT / "Makefile", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ | variables, capture_output=True, text=True, timeout=300, check=False
    )


def make(folder, *arguments, **variables):
    done = run_make(folder, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose environment is made, in a path with a space."""
    folder = tmp_path / "my otel-rl"
    (folder / ".venv").mkdir(parents=True)
    (folder / "tests" / "constraints").mkdir(parents=True)
    for name in ("pyproject.toml", "tests/constraints/latest.txt", ".venv/.demo", ".venv/.test"):
        (folder / name).touch()
    return folder


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


def test_a_checkout_whose_path_has_a_space_stays_one_word(checkout):
    targets = ("demo", "test-latest", "test-faults", "test-hosts", "test-stack")
    words = [word for line in make(checkout, "--dry-run", *targets).splitlines() for word in _words(line)]

    assert f"OTEL_RL_FAULTS_RESULTS={checkout}/benchmarks/results/collector_faults.json" in words
    assert not [word for word in words if word.startswith("otel-rl/") and word.endswith(".json")]
    assert any(word.startswith(f"PATH={checkout}/.venv/bin:") for word in words)


@pytest.mark.parametrize(
    ("target", "size", "selected", "writes"),
    [
        ("test-faults", "", "not full_size", True),
        ("test-faults", "quick", "quick", False),
        ("test-faults", "full", "full_size", False),
        ("test-stragglers", "", "full_size", True),
        ("test-stragglers", "quick", "quick", False),
        ("test-health", "", None, True),
        ("test-health", "quick", "quick", False),
        ("test-collector", "", None, False),
        ("test-collector", "quick", "not slow", False),
    ],
)
def test_a_size_selects_tests_and_only_the_whole_writes_results(checkout, target, size, selected, writes):
    printed = make(checkout, "--dry-run", target, f"SIZE={size}", SIZE="full")
    words = [word for line in printed.splitlines() if "pytest" in line for word in _words(line)]

    after_pytest = words[words.index("pytest") :]
    assert ("-m" in after_pytest, after_pytest[after_pytest.index("-m") + 1] if selected else None) == (
        selected is not None,
        selected,
    )
    assert any("RESULTS=" in word for word in words) == writes


def test_a_size_that_is_none_is_refused_and_one_of_the_environment_counts_not(checkout):
    assert "SIZE" in run_make(checkout, "--dry-run", "test-faults", "SIZE=big").stderr
    assert "not full_size" in make(checkout, "--dry-run", "test-faults", SIZE="quick")


def test_every_target_that_a_page_names_is_one():
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run"]
    pages += [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")]
    named = {
        name
        for page in pages
        for names in re.findall(r"`make ([a-z][a-z -]*)", page.read_text())
        for name in names.split()
    }
    named |= set(re.findall(r"^run ([a-z-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))

    assert named - targets == set()


def _words(line):
    try:
        return shlex.split(line.rstrip("\\"))
    except ValueError:
        return []
