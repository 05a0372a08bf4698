"""Credential files that cannot be meant stop the start of the command and of the program, with the name and the fix."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from certificates import PREFIX, Authority, secret
from collector_process import PATIENCE_SECONDS, CollectorProcess

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


def _write(folder: Path, name: str, content: str, mode: int = 0o600) -> str:
    file = folder / name
    file.write_text(content)
    file.chmod(mode)
    return str(file)


def _readable_by_all(folder: Path, file: str) -> str:
    return _write(folder, f"open-{file}", (folder / file).read_text(), 0o644)


def _expired(folder: Path) -> str:
    return str(Authority(folder, "old").issue("old-receiver", expired=True)[0])


def _other_key(folder: Path) -> str:
    return str(Authority(folder, "other").issue("other-receiver")[1])


#: By the kind of fault: what stands in each variable, and what is said of it.
BAD: dict[str, dict[str, tuple[Callable[[Path], str], str]]] = {
    "missing": {
        "TLS_CERT_FILE": (lambda folder: f"{folder}/none.pem", "does not exist; put the file there"),
        "TLS_KEY_FILE": (lambda folder: f"{folder}/none.key", "does not exist; put the file there"),
        "TLS_CLIENT_CA_FILE": (lambda folder: f"{folder}/no-authority.pem", "does not exist; put the file there"),
        "TOKEN_FILE": (lambda folder: f"{folder}/none", "does not exist; put the file there"),
    },
    "empty": {
        "TLS_CERT_FILE": (lambda folder: _write(folder, "bad.pem", ""), "is empty; write it"),
        "TLS_KEY_FILE": (lambda folder: _write(folder, "bad.key", "\n"), "is empty; write it"),
        "TLS_CLIENT_CA_FILE": (lambda folder: _write(folder, "bad-authority.pem", ""), "is empty; write it"),
        "TOKEN_FILE": (lambda folder: _write(folder, "bad", " \n"), "is empty; write it"),
    },
    "not set": {
        "TLS_CERT_FILE": (lambda _: "", "is not set"),
        "TLS_CLIENT_CA_FILE": (lambda _: "", "is not set"),
        "TOKEN_FILE": (lambda _: "", "is not set"),
    },
    "expired, readable by all": {
        "TLS_CERT_FILE": (_expired, "has expired on "),
        "TLS_KEY_FILE": (
            lambda folder: _readable_by_all(folder, "receiver.key"),
            "is open to every user of this machine (mode 0644); run chmod o= on it",
        ),
        "TOKEN_FILE": (
            lambda folder: _readable_by_all(folder, "token"),
            "is open to every user of this machine (mode 0644); run chmod o= on it",
        ),
    },
    "no PEM": {"TLS_CERT_FILE": (lambda folder: _write(folder, "bad.pem", "x"), "has no certificate in PEM")},
}


class Bad(NamedTuple):
    """The variables with a fault in some of them, and what has to be said: variable, value and fault of each."""

    environment: dict[str, str]
    said: list[tuple[str, str, str]]


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, tmp_path: Path, good: dict[str, str]) -> Bad:
    made = {variable: make(tmp_path) for variable, (make, _) in BAD[request.param].items()}
    says = [(variable, made[variable], fault) for variable, (_, fault) in BAD[request.param].items()]
    return Bad({f"{PREFIX}{name}": text for name, text in {**good, **made}.items()}, says)


def test_the_command_refuses_with_the_reason(otelcol_rl: Path, tmp_path: Path, bad: Bad, refused: Callable[..., str]):
    said = refused(SELECTION.arguments().split(), **bad.environment)
    for variable, value, fault in bad.said:
        assert f"{value or PREFIX + variable} {fault}" in said


def test_the_program_alone_does_not_start_either(otelcol_rl: Path, tmp_path: Path, bad: Bad):
    file = tmp_path / "composed.yaml"
    file.write_text(composed.compose(SELECTION, None).text)
    collector = CollectorProcess(otelcol_rl, [file], tmp_path, bad.environment)
    ended = subprocess.run(
        collector.command,
        cwd=tmp_path,
        env=collector.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    for variable, value, fault in bad.said:
        named = f"{PREFIX}{variable}: {value}" if value else f"{PREFIX}{variable}"
        assert f"{named} {fault}" in ended.stderr
    assert "extensions::credential_files: " in ended.stderr


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
