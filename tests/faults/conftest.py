"""The real collector, the ledger, and the table that a run of these tests leaves behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import go_build
import pytest
from chain import Chain
from ledger_process import Ledger
from results import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 1800


@pytest.fixture(scope="session")
def otelcol_rl() -> Path:
    """Path of the built collector; the first build on a machine takes some minutes."""
    build = subprocess.run(
        [sys.executable, ROOT / "otelcol-builder" / "build.py"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=BUILD_SECONDS,
        check=True,
    )
    return Path(build.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def ledger_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger, compiled; it needs nothing but Go's standard library."""
    binary = tmp_path_factory.mktemp("ledger") / "ledger"
    command = [go_build.go_command(), "build", "-o", binary, "."]
    go_build.run(command, ROOT / "tests" / "faults" / "ledger", go_build.go_environment())
    return binary


@pytest.fixture
def ledger(ledger_binary: Path) -> Iterator[Ledger]:
    with Ledger(ledger_binary) as running:
        yield running


@pytest.fixture
def chain(otelcol_rl: Path, ledger: Ledger, tmp_path: Path) -> Iterator[Chain]:
    """Makes collectors; all of them are stopped at the end of the test, before the ledger. Logs stay, queues go."""
    with ExitStack() as stack:
        yield Chain(otelcol_rl, ledger, tmp_path, stack)
    for queue in tmp_path.rglob("queue"):
        shutil.rmtree(queue)


TABLE = Table()


@pytest.fixture(scope="session")
def table() -> Table:
    """Where each scenario enters what it measured."""
    return TABLE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and write it where OTEL_RL_FAULTS_RESULTS says."""
    if TABLE.rows:
        terminalreporter.section("faults, measured")
        terminalreporter.write_line(TABLE.markdown())
        TABLE.write()
