"""What a neighbour on the machine could use: ports, file modes, secrets in output, configuration from the network."""

from __future__ import annotations

import os
import stat
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import shipped_settings
from bad_input import COMMAND, by_command, export, post
from collector_process import CollectorProcess, free_ports, wait_for
from otlp import span

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "OTEL_RL_COLLECTOR_"
LISTENING = "0A"
ROLES = {
    "local": ["--role", "local"],
    "agent": ["--role", "agent", "--gateways", "2"],
    "gateway": ["--role", "gateway", "--sink", "lgtm", "file"],
    "durable gateway": ["--role", "gateway", "--sink", "lgtm", "--with", "durable"],
}


def _variables() -> dict[str, str]:
    nowhere = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return {f"{PREFIX}GATEWAY_{number}": address for number, address in enumerate(nowhere, 1)}


def _listening(pid: int) -> set[str]:
    """Return the addresses of the sockets of a process that wait for connections, and of its UDP sockets, in hex."""
    mine = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in mine and (table.startswith("udp") or fields[3] == LISTENING):
                found.add(fields[1].partition(":")[0])
    return found


@pytest.fixture(scope="module", params=ROLES)
def started(
    request: pytest.FixtureRequest, otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """A collector of each role, started by the command."""
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    variables = _variables()
    if "gateway" in request.param:
        variables[f"{PREFIX}DEAD_LETTER_DIR"] = str(folder / "dead-letters")
    with by_command(otelcol_rl, folder, ROLES[request.param], **variables) as running:
        yield running


def test_everything_listens_on_loopback_only(started: CollectorProcess):
    assert started.process is not None
    addresses = _listening(started.process.pid)
    assert addresses == {"0100007F"}, addresses


def test_what_the_command_starts_writes_for_its_user_only(started: CollectorProcess):
    assert post(started, export([span("private")]))[0] == 200
    if ROLES["local"][-1] in started.command:
        wait_for(lambda: "private" in started.text("traces"), "the span is written")
    written = [path for path in started.folder.rglob("*") if path.name != "collector.log"]
    assert written
    for path in written:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_folders_of_the_plain_files_keep_others_out(otelcol_rl: Path, tmp_path: Path):
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path) as collector:
        assert post(collector, export([span("private")]))[0] == 200
        wait_for(lambda: "private" in collector.text("traces"), "the span is written")
        assert stat.S_IMODE(collector.data.stat().st_mode) == 0o700


def _made_up_secret() -> str:
    return "Qx7" + os.urandom(20).hex()


def test_secrets_of_the_data_are_not_in_the_collectors_own_output(otelcol_rl: Path, tmp_path: Path):
    secret = _made_up_secret()
    bad = export([{**span("secret", {"note": f"api_key={secret}", "password": secret}), "spanId": "no hex"}])
    with by_command(otelcol_rl, tmp_path, ROLES["local"], **{shipped_settings.LOG_LEVEL: "debug"}) as collector:
        assert post(collector, export([span("secret", {"note": f"api_key={secret}", "password": secret})]))[0] == 200
        assert post(collector, bad)[0] == 400
        wait_for(lambda: "secret" in collector.text("traces"), "the span is written")
        with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
    assert secret not in collector.log()
    assert secret not in metrics
    assert all(secret not in collector.text(signal) for signal in ("traces", "metrics", "logs"))


def test_the_fingerprint_key_is_in_no_output(otelcol_rl: Path, tmp_path: Path):
    secret = _made_up_secret()
    key = {f"{PREFIX}FINGERPRINT_KEY": secret}
    variables = {**key, shipped_settings.FINGERPRINTS: "true"}
    environment = {**os.environ, f"{PREFIX}BINARY": str(otelcol_rl), **key}
    (tmp_path / "fingerprints.yaml").write_text(shipped_settings.as_file({shipped_settings.FINGERPRINTS: "true"}))
    composed = subprocess.run(
        [COMMAND, "collector", "config", *ROLES["local"], "--with-file", "fingerprints.yaml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert composed.returncode == 0, composed.stderr
    assert secret not in composed.stdout + composed.stderr
    with by_command(
        otelcol_rl, tmp_path, ROLES["local"], **{**variables, shipped_settings.LOG_LEVEL: "debug"}
    ) as collector:
        files = [*collector.command[1:]]
    assert secret not in collector.log()
    assert secret not in " ".join(files)
    (tmp_path / "local.yaml").write_text(composed.stdout)
    printed = subprocess.run(
        [otelcol_rl, "print-config", "--config", tmp_path / "local.yaml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert secret not in printed.stdout + printed.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_configuration_is_never_fetched_from_the_network(otelcol_rl: Path, tmp_path: Path, scheme: str):
    refused = subprocess.run(
        [otelcol_rl, "validate", "--config", f"{scheme}://127.0.0.1:1/collector.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert refused.returncode != 0
    assert f'unsupported scheme on URI "{scheme}:' in refused.stderr
