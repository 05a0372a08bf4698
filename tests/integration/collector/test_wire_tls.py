"""`--with tls`: what arrives through it, what is refused, and that renewed certificates are taken without a restart."""

from __future__ import annotations

import signal
import ssl
from typing import TYPE_CHECKING

import grpc
import pytest
from bad_input import by_command, call, export, neighbour, post
from certificates import HOST, PREFIX, Authority, call_tls, post_tls, served_certificate
from collector_process import CollectorProcess, free_ports, wait_for
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from otlp import span

if TYPE_CHECKING:
    from pathlib import Path

GATEWAY = ["--role", "gateway", "--sink", "file", "--with", "tls"]
AGENT = ["--role", "agent", "--with", "tls"]
LOCAL = ["--role", "local", "--with", "tls"]
OWN_TLS = "exporters::durable_otlp_grpc/gateway_1::tls"
SERVER_NAME = f"{OWN_TLS}::server_name_override"
FAST = {f"{PREFIX}ROOT_WAIT": "1s", f"{PREFIX}SAMPLED_PERCENTAGE": "100"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def to_gateway(gateway: CollectorProcess, authority: Authority) -> dict[str, str]:
    """The variables of an agent that trusts the authority of this gateway."""
    port = gateway.environment[f"{PREFIX}GRPC_PORT"]
    return {f"{PREFIX}GATEWAY": f"{HOST}:{port}", f"{PREFIX}GATEWAY_CA_FILE": str(authority.file)}


def ended_span() -> ReadableSpan:
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("step") as begun:
        pass
    assert isinstance(begun, ReadableSpan)
    return begun


def assert_plaintext_is_refused(collector: CollectorProcess) -> None:
    """Ask without a body: Go's server reads 517 bytes, answers and closes, and that resets a connection with more."""
    status, said = post(collector, b"")
    assert status == 400
    assert "HTTP request to an HTTPS server" in said


def test_what_an_agent_ships_over_tls_arrives(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    variables = {**FAST, **authority.receiver()}
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), GATEWAY, **variables) as gateway:
        way = to_gateway(gateway, authority)
        with by_command(otelcol_rl, folder(tmp_path, "agent"), AGENT, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span is at the gateway")


def test_every_one_of_several_gateways_is_reached_over_tls(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    variables = {**FAST, **authority.receiver()}
    with (
        by_command(otelcol_rl, folder(tmp_path, "first"), GATEWAY, **variables) as first,
        by_command(otelcol_rl, folder(tmp_path, "second"), GATEWAY, **variables) as second,
    ):
        way = {**to_gateway(first, authority)}
        for number, gateway in enumerate((first, second), start=1):
            way[f"{PREFIX}GATEWAY_{number}"] = f"{HOST}:{gateway.environment[f'{PREFIX}GRPC_PORT']}"
        with by_command(otelcol_rl, folder(tmp_path, "agent"), [*AGENT, "--gateways", "2"], **way) as agent:
            for number, gateway in ((0, first), (0xFF, second)):
                name, body = f"trace-{number}", export([span(f"trace-{number}", trace_id=f"{'5b' * 15}{number:02x}")])
                assert post(agent, body)[0] == 200
                wait_for(lambda to=gateway, name=name: name in to.text("traces"), f"{name} is at its gateway")


def test_no_plaintext_is_accepted(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    with by_command(otelcol_rl, tmp_path, LOCAL, **authority.receiver()) as collector:
        assert f"otlp http {HOST}:{collector.http_port} (TLS)" in collector.log()
        assert_plaintext_is_refused(collector)
        name, body = neighbour()
        assert post(collector, body)[0] in (0, 400)
        assert call(collector, b"")[0] == "UNAVAILABLE"
        assert post_tls(collector.http_port, authority.context(), body)[0] == 200
        trusted = grpc.ssl_channel_credentials(authority.file.read_bytes())
        assert call_tls(collector.environment[f"{PREFIX}GRPC_PORT"], trusted)[0] == "OK"
        wait_for(lambda: collector.text("traces").count(name) == 1, "only the request over TLS was taken")


def test_nothing_is_sent_to_a_gateway_that_another_authority_vouches_for(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    stranger = Authority(tmp_path, "stranger")
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), GATEWAY, **FAST, **stranger.receiver()) as gateway:
        way = to_gateway(gateway, authority)
        with by_command(otelcol_rl, folder(tmp_path, "agent"), AGENT, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: "certificate signed by unknown authority" in agent.log(), "the agent says why")
        assert name not in gateway.text("traces")


def test_the_server_name_is_what_the_certificate_has_to_say(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), GATEWAY, **FAST, **authority.receiver()) as gateway:
        way = {**to_gateway(gateway, authority), SERVER_NAME: "gateway.invalid"}
        with by_command(otelcol_rl, folder(tmp_path, "agent"), AGENT, **way) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: "not gateway.invalid" in agent.log(), "the agent says why")
        way[SERVER_NAME] = "localhost"
        with by_command(otelcol_rl, tmp_path / "agent", AGENT, **way):
            wait_for(lambda: name in gateway.text("traces"), "what waited on disk arrives")


def test_a_renewed_certificate_is_used_without_a_restart(otelcol_rl: Path, tmp_path: Path, authority: Authority):
    reload = {f"receivers::otlp::protocols::{protocol}::tls::reload_interval": "1s" for protocol in ("grpc", "http")}
    variables = {**authority.receiver(), **reload}
    with by_command(otelcol_rl, tmp_path, LOCAL, **variables) as collector:
        context = authority.context()
        before = served_certificate(collector.http_port, context)
        certificate, _ = authority.issue("receiver")
        renewed = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        assert renewed != before
        wait_for(
            lambda: served_certificate(collector.http_port, context) == renewed, "the renewed certificate is shown"
        )
        assert post_tls(collector.http_port, context, neighbour()[1])[0] == 200


def test_mutual_tls_takes_only_senders_with_a_certificate_of_the_authority(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    clients = Authority(tmp_path, "clients")
    variables = {**authority.receiver(), f"{PREFIX}TLS_CLIENT_CA_FILE": str(clients.file)}
    with by_command(otelcol_rl, tmp_path, [*LOCAL, "mutual-tls"], **variables) as collector:
        refused, taken = neighbour(), neighbour()
        for stranger in (None, authority.issue("of-another-authority")):
            assert post_tls(collector.http_port, authority.context(stranger), refused[1])[0] == 0
        client = clients.issue("client")
        assert post_tls(collector.http_port, authority.context(client), taken[1])[0] == 200
        wait_for(lambda: taken[0] in collector.text("traces"), "the span of the sender with a certificate is written")
        assert refused[0] not in collector.text("traces")
        port = collector.environment[f"{PREFIX}GRPC_PORT"]
        assert call_tls(port, grpc.ssl_channel_credentials(authority.file.read_bytes()))[0] == "UNAVAILABLE"
        with_certificate = grpc.ssl_channel_credentials(
            authority.file.read_bytes(), client[1].read_bytes(), client[0].read_bytes()
        )
        assert call_tls(port, with_certificate)[0] == "OK"


def test_an_agent_shows_its_certificate_where_the_gateway_asks_for_one(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    variables = {**FAST, **authority.receiver(), f"{PREFIX}TLS_CLIENT_CA_FILE": str(authority.file)}
    with by_command(otelcol_rl, folder(tmp_path, "gateway"), [*GATEWAY, "mutual-tls"], **variables) as gateway:
        certificate, key = authority.issue("agent-1")
        way = to_gateway(gateway, authority)
        own = {f"{OWN_TLS}::cert_file": str(certificate), f"{OWN_TLS}::key_file": str(key)}
        with by_command(otelcol_rl, folder(tmp_path, "agent"), AGENT, **way, **own) as agent:
            name, body = neighbour()
            assert post(agent, body)[0] == 200
            wait_for(lambda: name in gateway.text("traces"), "the span is at the gateway")


def asking(
    binary: Path, where: Path, role: list[str], authority: Authority, trusted: Authority, **ports: str
) -> CollectorProcess:
    """A collector whose receivers take only senders that this other authority vouches for."""
    variables = {**FAST, **authority.receiver(), f"{PREFIX}TLS_CLIENT_CA_FILE": str(trusted.file), **ports}
    return by_command(binary, where, [*role, "mutual-tls"], **variables)


def test_a_renewed_certificate_of_an_agent_is_shown_without_a_restart(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    port = str(free_ports(1)[0])
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    certificate, key = before.issue("agent-1")
    own = {
        f"{PREFIX}GATEWAY": f"{HOST}:{port}",
        f"{PREFIX}GATEWAY_CA_FILE": str(authority.file),
        f"{OWN_TLS}::cert_file": str(certificate),
        f"{OWN_TLS}::key_file": str(key),
        f"{OWN_TLS}::reload_interval": "1s",
    }
    with by_command(otelcol_rl, folder(tmp_path, "agent"), AGENT, **own) as agent:
        for name, trusted in (("first", before), ("second", after)):
            assert trusted.issue("agent-1") == (certificate, key)
            place = folder(tmp_path, name)
            with asking(otelcol_rl, place, GATEWAY, authority, trusted, **{f"{PREFIX}GRPC_PORT": port}) as gateway:
                sent, body = neighbour()
                assert post(agent, body)[0] == 200
                wait_for(lambda at=gateway, sent=sent: sent in at.text("traces"), f"the span is at the {name} gateway")


def test_a_renewed_certificate_of_a_job_is_shown_over_http_and_needs_a_restart_over_grpc(
    otelcol_rl: Path, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    certificate, key = before.issue("job")
    for wins_over_ours in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(wins_over_ours, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(authority.file))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(key))
    grpc_port, http_port = free_ports(2)
    ports = {f"{PREFIX}GRPC_PORT": str(grpc_port), f"{PREFIX}HTTP_PORT": str(http_port)}
    over_http = HttpExporter(f"https://{HOST}:{http_port}/v1/traces", timeout=300)
    over_grpc = GrpcExporter(f"https://{HOST}:{grpc_port}", timeout=300)
    with asking(otelcol_rl, folder(tmp_path, "first"), LOCAL, authority, before, **ports):
        assert over_http.export([ended_span()]) is SpanExportResult.SUCCESS
        assert over_grpc.export([ended_span()]) is SpanExportResult.SUCCESS
    after.issue("job")
    with asking(otelcol_rl, folder(tmp_path, "second"), LOCAL, authority, after, **ports):
        assert over_http.export([ended_span()]) is SpanExportResult.SUCCESS
        over_grpc._timeout = 2  # it tries again until then
        assert over_grpc.export([ended_span()]) is SpanExportResult.FAILURE
    over_http.shutdown()
    over_grpc.shutdown()


def test_an_agents_own_receivers_speak_tls_where_that_is_asked_for(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    way = {f"{PREFIX}GATEWAY": f"{HOST}:{free_ports(1)[0]}", f"{PREFIX}GATEWAY_CA_FILE": str(authority.file)}
    arguments = [*AGENT, "receiver-tls"]
    with by_command(otelcol_rl, tmp_path, arguments, **way, **authority.receiver()) as agent:
        assert_plaintext_is_refused(agent)
        assert post_tls(agent.http_port, authority.context(), neighbour()[1])[0] == 200


def test_a_replaced_authority_for_senders_is_used_without_a_restart(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    clients, others = Authority(tmp_path, "clients"), Authority(tmp_path, "others")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(clients.file.read_bytes())
    variables = {**authority.receiver(), f"{PREFIX}TLS_CLIENT_CA_FILE": str(trusted)}
    with by_command(otelcol_rl, tmp_path, [*LOCAL, "mutual-tls"], **variables) as collector:
        body = neighbour()[1]
        old, new = authority.context(clients.issue("old")), authority.context(others.issue("new"))
        assert post_tls(collector.http_port, old, body)[0] == 200
        assert post_tls(collector.http_port, new, body)[0] == 0
        trusted.write_bytes(others.file.read_bytes())
        wait_for(lambda: post_tls(collector.http_port, new, body)[0] == 200, "the new authority's senders are taken")
        assert post_tls(collector.http_port, old, body)[0] == 0


def test_a_reload_with_a_file_that_would_not_let_it_start_ends_the_collector_with_the_reason(
    otelcol_rl: Path, tmp_path: Path, authority: Authority
):
    with by_command(otelcol_rl, tmp_path, LOCAL, **authority.receiver()) as collector:
        (tmp_path / "receiver.key").chmod(0o644)
        assert collector.process is not None
        collector.process.send_signal(signal.SIGHUP)
        assert collector.process.wait(timeout=300) == 1
        assert "receiver.key is open to every user of this machine" in collector.log()
