"""What is wrong with variables, files, ports and choices is refused by the command with the name of the fix."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import shipped_settings
from bad_input import by_command, neighbour, post
from collector_process import CollectorProcess, free_ports, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PREFIX = "OTEL_RL_COLLECTOR_"
LOCAL = ["--role", "local"]
TO_OTLP = ["--role", "gateway", "--sink", "otlp"]
TO_LGTM = ["--role", "gateway", "--sink", "lgtm"]


@pytest.mark.parametrize(
    ("arguments", "variable", "value", "says"),
    [
        (LOCAL, "GRPCPORT", "4317", "did you mean OTEL_RL_COLLECTOR_GRPC_PORT?"),
        (LOCAL, "GRPC_PORT", "abc", "OTEL_RL_COLLECTOR_GRPC_PORT=abc is not a whole number from 0 to 65535"),
        (LOCAL, "HTTP_PORT", "99999", "OTEL_RL_COLLECTOR_HTTP_PORT=99999 is not a whole number from 0 to 65535"),
        (LOCAL, "MEMORY_LIMIT_MIB", "lots", "OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB=lots is not a whole number"),
        (LOCAL, "MEMORY_LIMIT_MIB", "0", "OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB=0 is not a whole number of at least 1"),
        (LOCAL, "MEMORY_SPIKE_MIB", "9999", "is set, but no longer read; write spike_limit_mib of extensions"),
        (LOCAL, "GATEWAY_COUNT", "2", "is set, but no longer read; add --gateways N to role gateway"),
        (LOCAL, "LISTEN", "999.1.1.1", "set OTEL_RL_COLLECTOR_LISTEN to an address of this machine"),
        (LOCAL, "HEALTH_ENDPOINT", "13133", "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT=13133 is not host:port"),
        (LOCAL, "DATA_DIR", "/dev/null/folder", "set OTEL_RL_COLLECTOR_DATA_DIR to a folder that can"),
        (LOCAL, "BINARY", "/nowhere/otelcol-rl", "OTEL_RL_COLLECTOR_BINARY=/nowhere/otelcol-rl is no program"),
        (TO_OTLP, "OTLP_ENDPOINT", "", "OTEL_RL_COLLECTOR_OTLP_ENDPOINT is not set and has no default"),
        (TO_OTLP, "OTLP_ENDPOINT", "gateway", "OTEL_RL_COLLECTOR_OTLP_ENDPOINT=gateway is not host:port"),
        (TO_LGTM, "TEMPO_URL", "tempo:4418", "is not a URL that begins with http:// or https://"),
        (TO_LGTM, "DECISION_WAIT", "soon", "OTEL_RL_COLLECTOR_DECISION_WAIT=soon is not a duration"),
        (["--role", "agent"], "GATEWAY", "", "OTEL_RL_COLLECTOR_GATEWAY is not set and has no default"),
        (
            ["--role", "agent", "--gateways", "2"],
            "GATEWAY_2",
            "gw-2",
            "OTEL_RL_COLLECTOR_GATEWAY_2=gw-2 is not host:port",
        ),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_has_to_be(
    refused: Callable[..., str], arguments: list[str], variable: str, value: str, says: str
):
    others = {"OTLP_ENDPOINT": "127.0.0.1:1"} if arguments == TO_OTLP else {}
    if arguments[1] == "agent":
        others = {"GATEWAY": "127.0.0.1:1", "GATEWAY_1": "127.0.0.1:1", "GATEWAY_2": "127.0.0.1:2"}
    given = {f"{PREFIX}{name}": text for name, text in {**others, variable: value}.items()}
    assert says in refused(arguments, **given)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--role", "locl"], "no role named 'locl'; did you mean local?"),
        (["--role", "gateway", "--sink", "lgmt"], "no sink named 'lgmt'; did you mean lgtm?"),
        (["--role", "local", "--with", "contnt"], "no option named 'contnt'; did you mean content?"),
        (["--role", "local", "--with", "kafka"], "no option named 'kafka'; there are "),
        (["--role", "gateway"], "a gateway needs a sink, else nothing leaves it; add --sink"),
        (["--role", "agent", "--sink", "lgtm"], "give the sink to the gateway"),
        (["--role", "local", "--with", "trusted-senders"], "option trusted-senders does not fit role local"),
        ([*TO_LGTM, "--with", "content", "trusted-senders"], "cannot be combined"),
        (["--role", "agent", "--gateways", "0"], "--gateways 0 is not between 1 and 256"),
    ],
)
def test_unknown_and_conflicting_choices_are_refused_with_the_reason(
    refused: Callable[..., str], arguments: list[str], says: str
):
    assert says in refused(arguments)


@pytest.mark.parametrize("what", ["GRPC_PORT", "HTTP_PORT", "METRICS_PORT", "HEALTH_ENDPOINT"])
def test_an_occupied_port_is_named_with_the_variable_that_moves_it(refused: Callable[..., str], what: str):
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        value = f"127.0.0.1:{port}" if what == "HEALTH_ENDPOINT" else str(port)
        said = refused(LOCAL, **{f"{PREFIX}{what}": value})
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in said
    assert f"stop what listens there or set OTEL_RL_COLLECTOR_{what}" in said


def test_a_collector_that_runs_keeps_its_ports_when_a_second_is_started(
    otelcol_rl: Path, tmp_path: Path, refused: Callable[..., str]
):
    folder = tmp_path / "first"
    folder.mkdir()
    with by_command(otelcol_rl, folder, LOCAL) as first:
        taken = {name: first.environment[name] for name in (f"{PREFIX}GRPC_PORT", f"{PREFIX}HTTP_PORT")}
        assert "Address already in use" in refused(LOCAL, **taken)
        name, body = neighbour()
        assert post(first, body)[0] == 200
        wait_for(lambda: name in first.text("traces"), "the first collector goes on")


def test_a_backend_that_cannot_be_reached_is_named_and_gets_everything_when_it_returns(
    otelcol_rl: Path, tmp_path: Path
):
    (port,) = free_ports(1)
    gateway_folder, sink_folder = tmp_path / "gateway", tmp_path / "sink"
    gateway_folder.mkdir()
    sink_folder.mkdir()
    variables = {
        f"{PREFIX}OTLP_ENDPOINT": f"127.0.0.1:{port}",
        shipped_settings.SINK_INSECURE: "true",
        f"{PREFIX}SAMPLED_PERCENTAGE": "100",
        f"{PREFIX}ROOT_WAIT": "1s",
    }
    with by_command(otelcol_rl, gateway_folder, TO_OTLP, **variables) as gateway:
        name, body = neighbour()
        assert post(gateway, body)[0] == 200
        wait_for(lambda: f"127.0.0.1:{port}" in gateway.log(), "the log names the backend")
        assert "connection refused" in gateway.log()
        with CollectorProcess(otelcol_rl, ["local.yaml"], sink_folder, {f"{PREFIX}GRPC_PORT": str(port)}) as sink:
            wait_for(lambda: name in sink.text("traces"), "what waited is delivered")


def test_the_plain_files_end_at_the_start_with_the_address_that_is_taken(otelcol_rl: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        collector = CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path, {f"{PREFIX}HTTP_PORT": str(port)})
        with (
            pytest.raises(AssertionError, match=f"listen tcp 127.0.0.1:{port}: bind: address already in use"),
            collector,
        ):
            pass
