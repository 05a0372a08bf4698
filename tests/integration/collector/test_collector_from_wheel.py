"""Somebody with the wheel alone gets the same collector and the same configuration as somebody with a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from support import distribution

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = "import sys; from otel_rl.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel, as pip lays it into an environment."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(distribution.build_wheel(folder)) as wheel:
        wheel.extractall(folder / "content")
    return folder / "content"


def from_wheel(unpacked: Path, folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_RL_COLLECTOR")}
    answer = subprocess.run(
        [sys.executable, "-c", COMMAND, "collector", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return answer.stdout


def test_the_wheel_builds_the_program_of_the_checkout(otelcol_rl: Path, unpacked: Path, tmp_path: Path):
    # The key of a build covers all its sources: the same path means that the wheel holds them all.
    assert from_wheel(unpacked, tmp_path, "build").splitlines()[-1] == str(otelcol_rl)


def test_the_wheel_prints_a_configuration_that_the_program_accepts(otelcol_rl: Path, unpacked: Path, tmp_path: Path):
    file = tmp_path / "collector.yaml"
    file.write_text(from_wheel(unpacked, tmp_path, "config", "--role", "gateway", "--sink", "lgtm"))
    subprocess.run([otelcol_rl, "validate", "--config", file], check=True, timeout=300)
