"""What is refused because it would travel in plaintext, or because a secret stands in the configuration itself."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ruamel.yaml")

from otel_rl.collector.checks import wire

SECRET = "Qx7-made-up"
AUTH = {"authenticator": "bearertokenauth"}
TLS = {"cert_file": "cert.pem", "key_file": "key.pem"}


def receiver(**settings: Any) -> dict[str, Any]:
    return {"receivers": {"otlp": {"protocols": {"http": settings}}}}


def exporter(**settings: Any) -> dict[str, Any]:
    return {"exporters": {"otlp/sink": settings}}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (receiver(endpoint="0.0.0.0:4318", auth=AUTH), "otlp http asks for credentials on 0.0.0.0:4318 without TLS"),
        (receiver(endpoint="[::]:4318", auth=AUTH), "set OTEL_RL_COLLECTOR_LISTEN to 127.0.0.1"),
        (exporter(endpoint="http://tempo:4318", auth=AUTH), "otlp/sink sends credentials to http://tempo:4318"),
        (exporter(endpoint="gateway:4317", auth=AUTH, tls={"insecure": True}), "sends credentials to gateway:4317"),
        (
            exporter(endpoint="127.0.0.1:4317", auth=AUTH, tls={"insecure": True}),
            "sends credentials to 127.0.0.1:4317 without TLS; add --with tls, or set tls.insecure to false",
        ),
        (
            exporter(protocol={"otlp": {"auth": AUTH, "tls": {"insecure": True}}}),
            "otlp/sink sends credentials to its addresses",
        ),
    ],
)
def test_credentials_in_plaintext_are_refused(values: dict[str, Any], says: str):
    (problem,) = wire.plaintext(values, encrypted=False)
    assert says in problem


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (receiver(endpoint="10.0.0.1:4318"), "listens on 10.0.0.1:4318 without TLS; add --with receiver-tls"),
        (exporter(endpoint="http://10.0.0.1:3100/otlp"), "sends everything to http://10.0.0.1:3100/otlp without TLS"),
        (exporter(endpoint="gateway:4317", tls={"insecure": True}), "sends everything to gateway:4317 without TLS"),
    ],
)
def test_with_tls_chosen_nothing_goes_over_the_network_in_plaintext(values: dict[str, Any], says: str):
    (problem,) = wire.plaintext(values, encrypted=True)
    assert says in problem
    assert not list(wire.plaintext(values, encrypted=False))


@pytest.mark.parametrize(
    "values",
    [
        receiver(endpoint="127.0.0.1:4318", auth=AUTH),
        receiver(endpoint="[::1]:4318", auth=AUTH),
        receiver(endpoint="localhost:4318", auth=AUTH),
        receiver(endpoint="0.0.0.0:4318", auth=AUTH, tls=TLS),
        exporter(endpoint="http://127.0.0.1:4318/otlp", auth=AUTH),
        exporter(endpoint="https://vendor.invalid", auth=AUTH),
        exporter(endpoint="vendor.invalid:4317", auth=AUTH, tls={"insecure": False}),
        {"exporters": {"debug": None, "file": {"path": "x"}}},
    ],
)
def test_tls_and_the_loopback_interface_are_accepted(values: dict[str, Any]):
    assert not list(wire.plaintext(values, encrypted=True))


@pytest.mark.parametrize(
    ("configuration", "path"),
    [
        ({"extensions": {"bearertokenauth": {"token": SECRET}}}, "extensions.bearertokenauth.token"),
        ({"extensions": {"bearertokenauth": {"tokens": [SECRET, SECRET]}}}, "extensions.bearertokenauth.tokens"),
        (
            {"extensions": {"basicauth": {"htpasswd": {"inline": f"a:{SECRET}"}}}},
            "extensions.basicauth.htpasswd.inline",
        ),
        ({"extensions": {"basicauth": {"client_auth": {"password": SECRET}}}}, "basicauth.client_auth.password"),
        (exporter(headers={"Authorization": f"Bearer {SECRET}"}), "exporters.otlp/sink.headers.Authorization"),
        (exporter(headers={"x-honeycomb-team": SECRET}), "exporters.otlp/sink.headers.x-honeycomb-team"),
        (receiver(tls={"key_pem": SECRET}), "receivers.otlp.protocols.http.tls.key_pem"),
        (exporter(endpoint=f"https://team:{SECRET}@vendor.invalid/otlp"), "exporters.otlp/sink.endpoint"),
        (exporter(endpoint=f"team:{SECRET}@vendor.invalid:4317"), "exporters.otlp/sink.endpoint"),
        (exporter(logs_endpoint=f"https://vendor.invalid/otlp?api_key={SECRET}"), "exporters.otlp/sink.logs_endpoint"),
        ({"receivers": {"prometheus": {"a": [{"url": f"http://{SECRET}@host"}]}}}, "receivers.prometheus.a.url"),
    ],
)
def test_a_secret_in_the_configuration_itself_is_named_and_not_shown(configuration: dict[str, Any], path: str):
    problems = list(wire.inline_secrets(configuration))
    assert problems
    for problem in problems:
        assert f"{path} holds a secret itself" in problem
        assert SECRET not in problem


def test_references_and_harmless_headers_are_accepted():
    configuration = {
        "extensions": {
            "bearertokenauth": {"token": "${env:TOKEN}"},
            "basicauth": {"client_auth": {"password": "${file:/run/secrets/password}", "username": "train"}},
        },
        **exporter(headers={"X-Scope-OrgID": "team", "Authorization": "Bearer ${env:TOKEN}"}),
        **receiver(endpoint="https://${env:USER}:${env:PASSWORD}@vendor.invalid/otlp?zone=a", path="/data/exp@2"),
    }
    assert not list(wire.inline_secrets(configuration))
