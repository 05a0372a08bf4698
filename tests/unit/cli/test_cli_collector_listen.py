"""Where a collector listens: with IPv6, on ports of its own, and with a warning where everybody may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main

pytest.importorskip("ruamel.yaml")

from ruamel.yaml import YAML

from otel_rl.collector.checks import host, listeners
from otel_rl.collector.composed import compose
from otel_rl.collector.parts.choices import select

if TYPE_CHECKING:
    from pathlib import Path

LISTEN = "OTEL_RL_COLLECTOR_LISTEN"
OPEN = "without TLS and credentials everybody who reaches this machine can send"


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_an_ipv6_address_gets_brackets_where_a_port_follows_and_only_there(address: str):
    values = YAML(typ="safe").load(compose(select("local"), {LISTEN: address}).text)
    readers = values["service"]["telemetry"]["metrics"]["readers"]
    scraped = values["receivers"]["prometheus/self"]["config"]["scrape_configs"][0]["static_configs"][0]["targets"]
    protocols = values["receivers"]["otlp"]["protocols"]
    assert readers[0]["pull"]["exporter"]["prometheus"]["host"] == "::1"
    assert scraped == ["[::1]:${env:OTEL_RL_COLLECTOR_METRICS_PORT:-8888}"]
    assert protocols["grpc"]["endpoint"] == "[::1]:${env:OTEL_RL_COLLECTOR_GRPC_PORT:-4317}"
    assert protocols["http"]["endpoint"] == "[::1]:${env:OTEL_RL_COLLECTOR_HTTP_PORT:-4318}"


@pytest.mark.parametrize("quote", ["", '"'])
def test_an_ipv6_address_stands_in_a_file_of_the_site_too(tmp_path: Path, quote: str):
    own = tmp_path / "own.yaml"
    own.write_text(f"extensions: \n  zpages:\n    endpoint: {quote}${{env:{LISTEN}}}:0{quote}\n")
    values = compose(select("local", files=[own]), {LISTEN: "::1"}).values
    assert host.listens_on(values)["zpages"] == "[::1]:0"


@pytest.mark.parametrize("environ", [{}, {LISTEN: "0.0.0.0"}, {LISTEN: "node-7"}, None])  # noqa: S104
def test_other_addresses_stay_a_variable(environ: dict[str, str] | None):
    text = compose(select("local"), environ).text
    assert f"endpoint: ${{env:{LISTEN}:-127.0.0.1}}:${{env:OTEL_RL_COLLECTOR_GRPC_PORT:-4317}}" in text


def test_ipv6_addresses_are_looked_at_before_a_start_and_written_with_brackets():
    ports = {f"OTEL_RL_COLLECTOR_{name}_PORT": "0" for name in ("GRPC", "HTTP", "METRICS")}
    health = {"OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": "[::1]:0"}
    values = compose(select("local"), {LISTEN: "::1", **ports, **health}).values
    assert set(host.listens_on(values).values()) == {"[::1]:0"}
    other = compose(select("local"), {LISTEN: "2001:db8::1", **ports, **health}).values
    for problem in host.start_problems(other):
        assert "cannot listen on [2001:db8::1]:0" in problem
        assert problem.endswith("set OTEL_RL_COLLECTOR_LISTEN to an address of this machine")
    assert len(host.start_problems(other)) == 3


@pytest.mark.parametrize(
    ("listens", "says"),
    [
        (
            {"otlp grpc": "127.0.0.1:4318", "otlp http": "127.0.0.1:4318"},
            "otlp grpc and otlp http both listen on port 4318; change OTEL_RL_COLLECTOR_GRPC_PORT or OTEL_RL",
        ),
        ({"own metrics": "0.0.0.0:13133", "health_status": "127.0.0.1:13133"}, "METRICS_PORT or OTEL_RL_COLLECTOR_HE"),
        ({"own metrics": "[::1]:9", "zpages": "localhost:9"}, "METRICS_PORT or the endpoint of zpages"),
    ],
)
def test_two_listeners_on_one_port_are_refused_with_their_variables(listens: dict[str, str], says: str):
    (problem,) = listeners.on_one_port(listens)
    assert says in problem


@pytest.mark.parametrize(
    "listens",
    [
        {"a": "127.0.0.1:0", "b": "127.0.0.1:0"},
        {"a": "10.0.0.1:1", "b": "10.0.0.2:1"},
        {"a": "127.0.0.1:1", "b": "127.0.0.1:2"},
        {"a": "", "b": ""},
    ],
)
def test_listeners_that_do_not_meet_are_accepted(listens: dict[str, str]):
    assert not list(listeners.on_one_port(listens))


@pytest.mark.usefixtures("no_program")
@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1"])  # noqa: S104
def test_an_open_door_is_a_warning_with_its_fix_and_no_refusal(
    address: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(LISTEN, address)
    assert main(["collector", "config", "--role", "local"]) == 0
    said = capsys.readouterr()
    (warning,) = [line for line in said.err.splitlines() if OPEN in line]
    assert warning.startswith("otel-rl collector config: warning: otlp grpc on ")
    assert "add --with tls token" in warning
    assert "docs/collector-security.md" in warning
    assert OPEN not in said.out


@pytest.mark.usefixtures("no_program")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_the_loopback_interface_is_no_open_door(address: str, capsys: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LISTEN, address)
    assert main(["collector", "config", "--role", "local"]) == 0
    assert OPEN not in capsys.readouterr().err


def test_receivers_with_tls_are_no_open_door():
    server = {"endpoint": "0.0.0.0:4317", "tls": {"cert_file": "c", "key_file": "k"}}
    assert listeners.open_to_all({"receivers": {"otlp": {"protocols": {"grpc": server}}}}) == []
