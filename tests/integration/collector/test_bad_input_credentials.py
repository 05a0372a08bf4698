"""Credential files that cannot be meant stop the start of the command and of the program, with the name and the fix."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from bad_input import COMMAND
from certificates import PREFIX, Authority, secret
from collector_process import CollectorProcess, free_ports

from otel_rl.collector import composed
from otel_rl.collector.parts import choices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SELECTION = choices.select("local", options=["tls", "mutual-tls", "token"])
VARIABLES = ("TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE", "TOKEN_FILE")


@pytest.fixture
def good(tmp_path: Path) -> dict[str, str]:
    """Every variable of the selection, with a file that is good."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("receiver")
    files = (str(certificate), str(key), str(authority.file), secret(tmp_path, "token", "a token"))
    return dict(zip(VARIABLES, files, strict=True))


def _write(folder: Path, content: str, mode: int = 0o600) -> str:
    file = folder / "bad"
    file.write_text(content)
    file.chmod(mode)
    return str(file)


def _readable_by_all(folder: Path, file: str) -> str:
    return _write(folder, (folder / file).read_text(), 0o644)


def _expired(folder: Path) -> str:
    return str(Authority(folder, "old").issue("old-receiver", expired=True)[0])


def _other_key(folder: Path) -> str:
    return str(Authority(folder, "other").issue("other-receiver")[1])


BAD: dict[str, tuple[str, Callable[[Path], str], str]] = {
    "certificate missing": ("TLS_CERT_FILE", lambda folder: f"{folder}/none.pem", "does not exist; put the file there"),
    "certificate empty": ("TLS_CERT_FILE", lambda folder: _write(folder, ""), "is empty; write it"),
    "certificate expired": ("TLS_CERT_FILE", _expired, "has expired on "),
    "certificate no PEM": ("TLS_CERT_FILE", lambda folder: _write(folder, "x"), "has no certificate in PEM"),
    "certificate not set": ("TLS_CERT_FILE", lambda _: "", "OTEL_RL_COLLECTOR_TLS_CERT_FILE is not set"),
    "key missing": ("TLS_KEY_FILE", lambda folder: f"{folder}/none.key", "does not exist; put the file there"),
    "key empty": ("TLS_KEY_FILE", lambda folder: _write(folder, "\n"), "is empty; write it"),
    "key readable by all": (
        "TLS_KEY_FILE",
        lambda folder: _readable_by_all(folder, "receiver.key"),
        "is open to every user of this machine (mode 0644); run chmod o= on it",
    ),
    "authority missing": ("TLS_CLIENT_CA_FILE", lambda folder: f"{folder}/none.pem", "does not exist"),
    "authority empty": ("TLS_CLIENT_CA_FILE", lambda folder: _write(folder, ""), "is empty; write it"),
    "authority not set": ("TLS_CLIENT_CA_FILE", lambda _: "", "OTEL_RL_COLLECTOR_TLS_CLIENT_CA_FILE is not set"),
    "token missing": ("TOKEN_FILE", lambda folder: f"{folder}/none", "does not exist; put the file there"),
    "token empty": ("TOKEN_FILE", lambda folder: _write(folder, " \n"), "is empty; write it"),
    "token readable by all": ("TOKEN_FILE", lambda folder: _readable_by_all(folder, "token"), "(mode 0644)"),
    "token not set": ("TOKEN_FILE", lambda _: "", "OTEL_RL_COLLECTOR_TOKEN_FILE is not set"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_command_refuses_with_the_reason(otelcol_rl: Path, tmp_path: Path, good: dict[str, str], case: str):
    variable, make, says = BAD[case]
    value = make(tmp_path)
    ports = free_ports(4)
    listen = {"GRPC_PORT": ports[0], "HTTP_PORT": ports[1], "METRICS_PORT": ports[2]}
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("OTEL_")},
        **{f"{PREFIX}{name}": str(port) for name, port in listen.items()},
        f"{PREFIX}HEALTH_ENDPOINT": f"127.0.0.1:{ports[3]}",
        f"{PREFIX}BINARY": str(otelcol_rl),
        **{f"{PREFIX}{name}": text for name, text in {**good, variable: value}.items()},
    }
    command = [COMMAND, "collector", "run", *SELECTION.arguments().split()]
    refused = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert says in refused.stderr
    assert value in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("case", BAD)
def test_the_program_alone_does_not_start_either(otelcol_rl: Path, tmp_path: Path, good: dict[str, str], case: str):
    variable, make, says = BAD[case]
    value = make(tmp_path)
    file = tmp_path / "composed.yaml"
    file.write_text(composed.compose(SELECTION, None).text)
    given = {f"{PREFIX}{name}": text for name, text in {**good, variable: value}.items()}
    collector = CollectorProcess(otelcol_rl, [file], tmp_path, given)
    ended = subprocess.run(
        collector.command,
        cwd=tmp_path,
        env=collector.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert f"extensions::credential_files: {PREFIX}{variable}" in ended.stderr
    assert says in ended.stderr
    assert value in ended.stderr


def test_a_key_of_another_certificate_does_not_start(otelcol_rl: Path, tmp_path: Path, good: dict[str, str]):
    file = tmp_path / "composed.yaml"
    file.write_text(composed.compose(SELECTION, None).text)
    given = {f"{PREFIX}{name}": text for name, text in {**good, "TLS_KEY_FILE": _other_key(tmp_path)}.items()}
    collector = CollectorProcess(otelcol_rl, [file], tmp_path, given)
    with pytest.raises(AssertionError, match="private key does not match public key"):
        collector.__enter__()


def test_without_the_look_at_the_files_the_program_starts_with_most_of_them(
    otelcol_rl: Path, tmp_path: Path, good: dict[str, str]
):
    """What the stock components let pass is the reason for the extension; when they refuse it, it can go."""
    configuration = yaml.safe_load(composed.compose(SELECTION, None).text)
    del configuration["extensions"]["credential_files"]
    configuration["service"]["extensions"].remove("credential_files")
    file = tmp_path / "composed.yaml"
    file.write_text(yaml.safe_dump(configuration))
    certificate, _ = Authority(tmp_path, "old").issue("old-receiver", expired=True)
    key = certificate.with_suffix(".key")
    key.chmod(0o644)
    bad = {"TLS_CERT_FILE": str(certificate), "TLS_KEY_FILE": str(key), "TLS_CLIENT_CA_FILE": ""}
    given = {f"{PREFIX}{name}": text for name, text in {**good, **bad}.items()}
    with CollectorProcess(otelcol_rl, [file], tmp_path, given) as collector:
        assert "Everything is ready" in collector.log()


@pytest.mark.parametrize(
    ("option", "setting"),
    [("sink-token", "bearertokenauth/loki.filename"), ("sink-basic", "basicauth/loki.client_auth.password_file")],
)
def test_a_file_that_an_option_leaves_to_the_site_is_asked_for_without_the_command_too(
    otelcol_rl: Path, tmp_path: Path, option: str, setting: str
):
    file = tmp_path / "composed.yaml"
    file.write_text(composed.compose(choices.select("local", ["lgtm"], [option]), None).text)
    validated = CollectorProcess(otelcol_rl, [file], tmp_path).validate()
    assert validated.returncode != 0
    assert f"extensions.{setting} is not set: name the file of the token or password" in validated.stderr
