"""The real collector for the tests of this folder: built once, cached outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collector_process import FILE_SINK, CollectorProcess
from combinations import variables
from loopback_ports import free_ports

from otel_rl import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BUILD = Path(__file__).resolve().parents[3] / "otelcol-builder" / "build.py"
BUILD_SECONDS = 1800
REDACTING = {"local": ("local.yaml",), "gateway": ("gateway.yaml", FILE_SINK), "agent": ("agent.yaml", FILE_SINK)}


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


@pytest.fixture
def refused(
    otelcol_rl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What `otel-rl collector run` says when it refuses to start; it runs in this process."""

    def run(arguments: Sequence[str], **environment: str) -> str:
        names = ("GRPC_PORT", "HTTP_PORT", "METRICS_PORT", "HEALTH_ENDPOINT")
        *ports, health = free_ports(len(names))
        own = dict(zip(names, [*map(str, ports), f"127.0.0.1:{health}"], strict=True))
        own = {f"OTEL_RL_COLLECTOR_{name}": text for name, text in {**own, "BINARY": str(otelcol_rl)}.items()}
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            monkeypatch.delenv(name)
        for name, text in {**own, **environment}.items():
            monkeypatch.setenv(name, text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("it starts the collector"))
        assert cli.main(["collector", "run", *arguments]) == cli.FAILED == 2
        said = capfd.readouterr()
        assert said.out == ""
        return said.err

    return run


@pytest.fixture(scope="session", params=REDACTING)
def redacting(
    request: pytest.FixtureRequest, otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """A collector of each role that keeps all it gets; tests find their own items in what it writes."""
    keep = {"OTEL_RL_COLLECTOR_ROOT_WAIT": "1s", "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100"}
    folder = tmp_path_factory.mktemp(request.param)
    with CollectorProcess(otelcol_rl, REDACTING[request.param], folder, keep) as running:
        yield running
