from __future__ import annotations

import json
import os
import subprocess
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest
from support.charts_once import charts_once
from support.otlp_servers import HTTP

from otel_rl.cli import main
from otel_rl.cli.doctor import installed_instrumentors, otlp_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["charts_once"]
#: Ends of variables that decide how requests go out.
_REQUESTS = ("_PROXY", "_CA_BUNDLE")


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of its own, and none of the variables of the machine that tests run on."""
    for name in os.environ:
        if name.startswith("OTEL_") or name.upper().endswith(_REQUESTS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_program(no_variables: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same, on a machine without otelcol-rl."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("OTEL_RL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def one_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single instrumentor, whose library is there in a supported version."""
    group = installed_instrumentors.GROUP
    entry_point = EntryPoint("otel_rl_openai", "otel_rl.instrumentors.openai:OpenAIInstrumentor", group)
    monkeypatch.setattr(installed_instrumentors, "entry_points", lambda group: [entry_point])


@pytest.fixture
def doctor(no_variables: None, one_library: None, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Callable[..., Any]:
    """Problems that doctor finds; the exit code and the text agree with them, and nothing is printed beside."""

    def ask(endpoint: str, **environ: str) -> list[str]:
        for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **environ}.items():
            monkeypatch.setenv(name, value)
        if environ.items() >= HTTP.items():
            # What fails over HTTP fails at once; on a busy machine the handshake of TLS alone may take seconds.
            monkeypatch.setattr(otlp_request, "TIMEOUT", 60.0)
        code = main(["doctor", "--json"])
        captured = capfd.readouterr()
        # gRPC's core prints here, because this process has loaded it before doctor could ask it not to.
        assert [line for line in captured.err.splitlines() if "ssl_transport_security" not in line] == []
        problems: list[str] = json.loads(captured.out)["problems"]
        assert code == (1 if problems else 0)
        return problems

    return ask


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "certificate.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files
