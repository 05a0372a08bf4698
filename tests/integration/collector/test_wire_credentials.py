"""Tokens, passwords and tenants: asked for, sent, renewed, and in no output of the collector."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import shipped_settings
from bad_input import COMMAND, by_command, call, neighbour, post
from certificates import HOST, PREFIX, Authority, call_tls, post_tls, secret
from collector_process import CollectorProcess, wait_for
from otlp_backend import REQUESTS, OtlpBackend, Request

if TYPE_CHECKING:
    from collections.abc import Callable

FAST = {f"{PREFIX}ROOT_WAIT": "1s", f"{PREFIX}SAMPLED_PERCENTAGE": "100"}
GATEWAY = ["--role", "gateway", "--sink", "file", "--with", "tls"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def made_up() -> str:
    """A secret that is nowhere else."""
    return f"Qx7{os.urandom(12).hex()}"


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def htpasswd(name: str, password: str) -> str:
    return f"{name}:{{SHA}}{base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()}\n"  # noqa: S324


def way_to(gateway: CollectorProcess, authority: Authority) -> dict[str, str]:
    port = gateway.environment[f"{PREFIX}GRPC_PORT"]
    return {f"{PREFIX}GATEWAY": f"{HOST}:{port}", f"{PREFIX}GATEWAY_CA_FILE": str(authority.file)}


def _posted(collector: CollectorProcess, headers: dict[str, str], body: bytes = b"{}") -> int:
    """The status for a trace request in plaintext."""
    url = f"http://{HOST}:{collector.http_port}/v1/traces"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def test_only_a_sender_with_the_token_is_taken(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    token = made_up()
    variables = {**authority.receiver(), f"{PREFIX}TOKEN_FILE": secret(tmp_path, "token", f"{token}\n")}
    with by_command(otelcol_rl, tmp_path, ["--role", "local", "--with", "tls", "token"], **variables) as collector:
        refused, taken = neighbour(), neighbour()
        context, port = authority.context(), collector.http_port
        for headers in ({}, bearer("wrong"), {"Authorization": token}, basic("user", token)):
            assert post_tls(port, context, refused[1], headers)[0] == 401, headers
        assert post_tls(port, context, taken[1], bearer(token))[0] == 200
        trusted = grpc.ssl_channel_credentials(authority.file.read_bytes())
        grpc_port = collector.environment[f"{PREFIX}GRPC_PORT"]
        assert call_tls(grpc_port, trusted)[0] == "UNAUTHENTICATED"
        assert call_tls(grpc_port, trusted, [("authorization", "Bearer wrong")])[0] == "UNAUTHENTICATED"
        assert call_tls(grpc_port, trusted, [("authorization", f"Bearer {token}")])[0] == "OK"
        wait_for(lambda: taken[0] in collector.text("traces"), "the span with the token is written")
        assert refused[0] not in collector.text("traces")


def test_on_the_loopback_interface_a_token_needs_no_tls(otelcol_rl: Path, tmp_path: Path):
    variables = {f"{PREFIX}TOKEN_FILE": secret(tmp_path, "token", "correct")}
    with by_command(otelcol_rl, tmp_path, ["--role", "local", "--with", "token"], **variables) as collector:
        assert post(collector, neighbour()[1])[0] == 401
        assert call(collector, b"")[0] == "UNAUTHENTICATED"
        name, body = neighbour()
        assert _posted(collector, bearer("correct"), body) == 200
        wait_for(lambda: name in collector.text("traces"), "the span with the token is written")


def test_a_token_that_is_replaced_on_both_sides_needs_no_restart(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    theirs, ours = tmp_path / "gateway-tokens", tmp_path / "agent-token"
    secret(tmp_path, theirs.name, "first\n")
    secret(tmp_path, ours.name, "first\n")
    variables = {**FAST, **authority.receiver(), f"{PREFIX}TOKEN_FILE": str(theirs)}
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), [*GATEWAY, "token"], **variables) as gateway:
        way = {**way_to(gateway, authority), f"{PREFIX}GATEWAY_TOKEN_FILE": str(ours)}
        arguments = ["--role", "agent", "--with", "tls", "token"]
        with by_command(otelcol_rl, folder(tmp_path, "agent"), arguments, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span with the first token arrives")
            Path(secret(tmp_path, "fresh", "second\n")).rename(theirs)
            wait_for(lambda: "refresh token" in gateway.log(), "the gateway knows the second token")
            late, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: "check the token" in agent.log(), "the agent says what to check")
            secret(tmp_path, ours.name, "second\n")
            wait_for(lambda: late in gateway.text("traces"), "what was refused meanwhile arrives")


def test_a_changing_set_of_gateways_gets_the_token_over_tls(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    variables = {**FAST, **authority.receiver(), f"{PREFIX}TOKEN_FILE": secret(tmp_path, "tokens", "correct")}
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), [*GATEWAY, "token"], **variables) as gateway:
        way = {**way_to(gateway, authority), f"{PREFIX}GATEWAY_TOKEN_FILE": secret(tmp_path, "token", "correct")}
        way[f"{PREFIX}GATEWAYS"] = f'["{way[f"{PREFIX}GATEWAY"]}"]'
        arguments = ["--role", "agent", "--with", "load-balancing", "tls", "token"]
        with by_command(otelcol_rl, folder(tmp_path, "agent"), arguments, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span of the agent arrives")


def test_only_a_sender_with_name_and_password_is_taken(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    password = made_up()
    variables = {**FAST, **authority.receiver()}
    variables[shipped_settings.HTPASSWD_FILE] = secret(tmp_path, "htpasswd", htpasswd("train", password))
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), [*GATEWAY, "basic"], **variables) as gateway:
        context = authority.context()
        for headers in ({}, basic("train", "wrong"), basic("other", password), bearer(password)):
            assert post_tls(gateway.http_port, context, neighbour()[1], headers)[0] == 401, headers
        assert post_tls(gateway.http_port, context, neighbour()[1], basic("train", password))[0] == 200
        way = way_to(gateway, authority)
        way["extensions::basicauth/gateway::client_auth::username"] = "train"
        way["extensions::basicauth/gateway::client_auth::password_file"] = secret(tmp_path, "password", f"{password}\n")
        arguments = ["--role", "agent", "--with", "tls", "basic"]
        with by_command(otelcol_rl, folder(tmp_path, "agent"), arguments, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span of the agent arrives")


def test_a_changed_file_of_names_is_read_with_a_reload(otelcol_rl: Path, tmp_path: Path):
    file = secret(tmp_path, "htpasswd", htpasswd("train", "first"))
    arguments = ["--role", "local", "--with", "basic"]
    with by_command(otelcol_rl, tmp_path, arguments, **{shipped_settings.HTPASSWD_FILE: file}) as collector:
        assert _posted(collector, basic("train", "first")) == 200
        secret(tmp_path, "htpasswd", htpasswd("train", "second"))
        assert collector.process is not None
        collector.process.send_signal(signal.SIGHUP)
        wait_for(lambda: _posted(collector, basic("train", "second")) == 200, "the second password is taken")
        assert _posted(collector, basic("train", "first")) == 401


def test_an_emptied_token_file_lets_nobody_in_and_keeps_the_token(otelcol_rl: Path, tmp_path: Path):
    file = secret(tmp_path, "token", "first\n")
    arguments = ["--role", "local", "--with", "token"]
    with by_command(otelcol_rl, tmp_path, arguments, **{f"{PREFIX}TOKEN_FILE": file}) as collector:
        secret(tmp_path, "token", "\n")
        wait_for(lambda: "failed to reload credentials file" in collector.log(), "the collector saw the empty file")
        assert _posted(collector, {"Authorization": "Bearer "}) == 401
        assert _posted(collector, bearer("first")) == 200


def test_an_agents_own_receivers_ask_for_a_token_where_that_is_wanted(otelcol_rl: Path, tmp_path: Path):
    variables = {f"{PREFIX}TOKEN_FILE": secret(tmp_path, "token", "correct")}
    with by_command(otelcol_rl, tmp_path, ["--role", "agent", "--with", "receiver-token"], **variables) as agent:
        assert post(agent, neighbour()[1])[0] == 401


@pytest.mark.parametrize(
    ("option", "settings", "expected"),
    [
        (
            "sink-token",
            {"extensions::bearertokenauth/{}::filename": "secret"},
            lambda word: {"authorization": f"Bearer {word}"},
        ),
        (
            "sink-basic",
            {
                "extensions::basicauth/{}::client_auth::password_file": "secret",
                "extensions::basicauth/{}::client_auth::username": "'123456'",
            },
            lambda word: {name.lower(): value for name, value in basic("123456", word).items()},
        ),
        (
            "tenant",
            {"exporters::durable_otlp_http/{}::headers::X-Scope-OrgID": "team-rl"},
            lambda _: {"x-scope-orgid": "team-rl"},
        ),
    ],
    ids=["token", "name and password", "tenant"],
)
def test_each_backend_gets_its_own_over_tls(
    otelcol_rl: Path,
    tmp_path: Path,
    authority: Authority,
    option: str,
    settings: dict[str, str],
    expected: Callable[[str], dict[str, str]],
):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("backend"))
    seen: list[Request] = []

    def answer(request: Request) -> int:
        seen.append(request)
        return 200

    word = made_up()
    given = {path: secret(tmp_path, "word", word) if text == "secret" else text for path, text in settings.items()}
    with OtlpBackend(answer=answer, context=context) as backend:
        environment = {**FAST, shipped_settings.SCRAPE_INTERVAL: "1s", **shipped_settings.flush_timeout("100ms")}
        environment |= shipped_settings.of_exporters("tls::ca_file", str(authority.file))
        for sink in ("tempo", "loki", "prometheus"):
            environment |= {f"{PREFIX}{sink.upper()}_URL": backend.url}
            environment |= {path.format(sink): value for path, value in given.items()}
        arguments = ["--role", "local", "--sink", "lgtm", "--with", "tls", option]
        with by_command(otelcol_rl, tmp_path, arguments, **environment, **authority.receiver()) as collector:
            name, body = neighbour()
            assert post_tls(collector.http_port, authority.context(), body)[0] == 200
            wait_for(lambda: name in backend.taken, "the span is at the backend")
            wait_for(lambda: {request.path for request in seen} == set(REQUESTS), "every backend got something")
        wanted = expected(word)
    for request in seen:
        assert {header: request.headers.get(header) for header in wanted} == wanted


def test_another_receiver_gets_a_token_a_tenant_and_a_certificate(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    theirs = {**authority.receiver(), f"{PREFIX}TLS_CLIENT_CA_FILE": str(authority.file)}
    theirs[f"{PREFIX}TOKEN_FILE"] = secret(tmp_path, "token", "vendor-key")
    options = ["--role", "local", "--with", "tls", "mutual-tls", "token"]
    with by_command(otelcol_rl, folder(tmp_path, "vendor"), options, **theirs) as vendor:
        certificate, key = authority.issue("own")
        ours = {
            **FAST,
            f"{PREFIX}OTLP_ENDPOINT": f"{HOST}:{vendor.environment[f'{PREFIX}GRPC_PORT']}",
            "exporters::durable_otlp_grpc/sink::tls::ca_file": str(authority.file),
            "exporters::durable_otlp_grpc/sink::tls::cert_file": str(certificate),
            "exporters::durable_otlp_grpc/sink::tls::key_file": str(key),
            "exporters::durable_otlp_grpc/sink::headers::X-Scope-OrgID": "team-rl",
            "extensions::bearertokenauth/sink::filename": secret(tmp_path, "own-token", "vendor-key"),
        }
        arguments = ["--role", "local", "--sink", "otlp", "--with", "tls", "sink-token", "tenant"]
        with by_command(otelcol_rl, folder(tmp_path, "own"), arguments, **ours, **authority.receiver()) as collector:
            name, body = neighbour()
            assert post_tls(collector.http_port, authority.context(), body)[0] == 200
            wait_for(lambda: name in vendor.text("traces"), "the span is at the other receiver")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_no_credential_is_in_any_output(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    token, wrong, password = made_up(), made_up(), made_up()
    debug = {shipped_settings.LOG_LEVEL: "debug", **FAST}
    variables = {**debug, **authority.receiver(), f"{PREFIX}TOKEN_FILE": secret(tmp_path, "token", token)}
    options = [*GATEWAY, "token"]
    private = [token, wrong, password, (tmp_path / "receiver.key").read_text().splitlines()[1]]
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), options, **variables) as gateway:
        way = {**debug, **way_to(gateway, authority), f"{PREFIX}GATEWAY_TOKEN_FILE": secret(tmp_path, "own", wrong)}
        arguments = ["--role", "agent", "--with", "tls", "token", "receiver-basic"]
        way[shipped_settings.HTPASSWD_FILE] = secret(tmp_path, "htpasswd", htpasswd("job", password))
        with by_command(otelcol_rl, folder(tmp_path, "agent"), arguments, **way) as agent:
            assert post(agent, neighbour()[1])[0] == 401
            assert post_tls(gateway.http_port, authority.context(), neighbour()[1], bearer(wrong))[0] == 401
            name, body = neighbour()
            assert post_tls(gateway.http_port, authority.context(), body, bearer(token))[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span is written")
            wait_for(lambda: "Unauthenticated" in agent.log(), "the agent is refused")
            said = [_get(f"http://{HOST}:{one.metrics_port}/metrics") for one in (gateway, agent)]
            said += [_get(f"{gateway.health_url}status?all")]
            wait_for(lambda: any(gateway.own_resources("logs")), "the gateway's own log is written")
            printed = [_configuration(otelcol_rl, collector) for collector in (gateway, agent)]
        said += [agent.log()]
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.parent != tmp_path]
    said += [gateway.log(), *printed, *(file.read_bytes().decode(errors="replace") for file in files)]
    for word in private:
        assert not [text[:200] for text in said if word in text]
    assert str(tmp_path / "token") in printed[0]


def _configuration(binary: Path, collector: CollectorProcess) -> str:
    """What the command and the program print about this collector, the program without its masks."""
    options: dict[str, Any] = {"cwd": collector.folder, "env": collector.environment, "capture_output": True}
    command = [COMMAND, "collector", "config", *collector.command[3:]]
    composed = subprocess.run(command, text=True, timeout=300, check=True, **options)
    file = collector.folder.parent / "composed.yaml"
    file.write_text(composed.stdout)
    command = [binary, "print-config", "--mode=unredacted", "--config", file]
    printed = subprocess.run(command, text=True, timeout=300, check=True, **options)
    return composed.stdout + composed.stderr + printed.stdout + printed.stderr
