"""The real collector for the tests of this folder: built once, cached outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collector_process import CollectorProcess
from combinations import variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUILD = Path(__file__).resolve().parents[3] / "otelcol-builder" / "build.py"
BUILD_SECONDS = 1800


@pytest.fixture(scope="session")
def otelcol_rl() -> Path:
    """Path of the built collector, or the one a variable names; the first build on a machine takes some minutes."""
    if named := os.environ.get("OTEL_RL_COLLECTOR_BINARY"):
        return Path(named)
    build = subprocess.run(
        [sys.executable, BUILD], stdout=subprocess.PIPE, text=True, timeout=BUILD_SECONDS, check=True
    )
    return Path(build.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def needed_variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every variable that one of the combinations needs, with the files that they name."""
    return variables(tmp_path_factory.mktemp("credentials"))


@pytest.fixture
def start_collector(otelcol_rl: Path, tmp_path: Path) -> Iterator[Callable[..., CollectorProcess]]:
    """Start a collector on some files with some variables; it is stopped at the end of the test."""
    with ExitStack() as stack:

        def start(*configurations: str | Path, **environment: str) -> CollectorProcess:
            return stack.enter_context(CollectorProcess(otelcol_rl, configurations, tmp_path, environment))

        yield start
