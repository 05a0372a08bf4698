"""What is refused of a configuration although the collector's own `validate` lets it pass."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ruamel.yaml")

from otel_rl.collector.checks import components, host, removed_variables, settings, structure, variable_values
from otel_rl.collector.parts.files import folder
from otel_rl.collector.parts.variables import names_in, put_in, without_value


def configuration(**changes: Any) -> dict[str, Any]:
    """A small one with nothing wrong, and changed sections."""
    return {
        "extensions": {"file_storage": {"directory": "queue"}},
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
        "connectors": {"forward/out": None},
        "exporters": {"otlp_grpc/sink": {"endpoint": "x:1", "sending_queue": {"storage": "file_storage"}}},
        "service": {
            "extensions": ["file_storage"],
            "pipelines": {
                "traces": {"receivers": ["otlp"], "exporters": ["forward/out"]},
                "traces/out": {"receivers": ["forward/out"], "exporters": ["otlp_grpc/sink"]},
            },
        },
        **changes,
    }


def service(**pipelines: Any) -> dict[str, Any]:
    return {"extensions": ["file_storage"], "pipelines": pipelines}


def test_a_sound_configuration_has_no_problems():
    assert structure.problems(configuration()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"receivers": {"otlp": {}, "hostmetrics": {}}},
            "hostmetrics is a former name of host_metrics; write host_metrics",
        ),
        (
            {"exporters": {"logging": {}}},
            "otelcol-rl is built without logging: it is called debug",
        ),
        ({"processors": {"tail_sampler": {}}}, "otelcol-rl is built without tail_sampler; did you mean tail_sampling?"),
        ({"processors": {"zzz/a": {}}}, "without zzz; add it to otelcol-builder/manifest.yaml and build again"),
        ({"extensions": {}}, "otlp_grpc/sink wants the extension file_storage, which no file defines"),
        ({"extensions": {}}, "service.extensions names file_storage, but extensions has no such entry"),
        (
            {"service": {**configuration()["service"], "extensions": []}},
            "extension file_storage is configured but not in service.extensions, so it does not start",
        ),
        (
            {"exporters": {"otlp_grpc/sink": {"auth": {"authenticator": "bearertokenauth"}}}},
            "otlp_grpc/sink wants the extension bearertokenauth, which no file defines",
        ),
        (
            {"service": service(traces={"receivers": ["otlp"], "exporters": ["forward/out"]})},
            "connector forward/out is fed, but no pipeline receives from it; add a sink",
        ),
        (
            {"service": service(traces={"receivers": ["forward/out"], "exporters": ["otlp_grpc/sink"]})},
            "connector forward/out is received from, but no pipeline exports to it",
        ),
        (
            {"service": service(traces={"receivers": ["otlp"], "exporters": ["otlp_grpc/snk"]})},
            "pipeline traces names otlp_grpc/snk, but exporters has no such entry",
        ),
        ({"service": service(traces={"receivers": ["otlp"]})}, "pipeline traces has no exporters"),
    ],
)
def test_a_fault_is_named_with_its_fix(changes: dict[str, Any], message: str):
    found = structure.problems(configuration(**changes))
    assert any(message in one for one in found), found


def test_the_types_of_the_manifest_are_known_and_nothing_else():
    built = components.built()
    assert built["exporters"]["otlp_grpc"] == "otlp_grpc"
    assert built["exporters"]["otlp"] == "otlp_grpc"
    assert built["receivers"]["otlp"] == "otlp"
    assert "logging" not in built["exporters"]


def test_variables_are_put_in_as_the_collector_does_it():
    environ = {"A": "1", "LIST": "[x, y]", "EMPTY": ""}
    given = {
        "whole": "${env:A}",
        "part": "a${env:A}:${env:B:-2}",
        "list": "${env:LIST}",
        "text": "$$1 $x",
        "none": "${env:C:-}",
    }
    assert put_in(given, environ) == {"whole": 1, "part": "a1:2", "list": ["x", "y"], "text": "$1 $x", "none": None}


def test_only_variables_without_default_are_required_and_empty_ones_count_as_unset():
    given = {"a": ["${env:A}", {"b": "x${env:B:-}y${env:C}"}], "literal": "$${env:D}"}
    assert without_value(given, {"A": " "}) == ["A", "C"]


def problems(changes: dict[str, Any], **environ: str) -> list[str]:
    written = configuration(**changes)
    return host.problems(written, put_in(written, environ), environ)


def tls(**settings: Any) -> dict[str, Any]:
    return {"exporters": {"otlp_grpc/sink": {"endpoint": "x:1", "tls": settings}}}


def test_a_missing_certificate_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (found,) = problems(tls(ca_file="ca.pem"))
    assert (
        found == "exporters.otlp_grpc/sink.tls.ca_file: ca.pem does not exist; put the file there or correct the path"
    )
    (tmp_path / "ca.pem").touch()
    assert problems(tls(ca_file="ca.pem", cert_file="")) == []


def test_an_empty_client_ca_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (found,) = problems(tls(client_ca_file="${env:CLIENT_CA:-}"))
    assert "client_ca_file is empty: empty it would switch the check of client certificates off" in found


def test_a_folder_of_dead_letters_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    letters = {"dead_letter": {"directory": f"{tmp_path}/file/letters"}}
    (found,) = problems({"exporters": {"durable_otlp_grpc/sink": letters}})
    assert f"durable_otlp_grpc/sink: {tmp_path}/file/letters cannot be written ({tmp_path}/file is no folder)" in found
    assert "set OTEL_RL_COLLECTOR_DEAD_LETTER_DIR" in found


def test_a_queue_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    extensions = {"file_storage": {"directory": f"{tmp_path}/file/queue"}}
    (found,) = problems({"extensions": extensions})
    assert f"{tmp_path}/file/queue cannot be written ({tmp_path}/file is no folder)" in found
    assert "OTEL_RL_COLLECTOR_QUEUE_DIR" in found


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_queue_folder_without_permission_is_named():
    (found,) = problems({"extensions": {"file_storage": {"directory": "/proc/queue"}}})
    assert "no permission in /proc" in found


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "cifs", "fuse.sshfs", "beegfs_nodev", "9p"])
def test_a_queue_on_a_network_file_system_is_told(tmp_path: Path, kind: str):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"root / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")
    assert host._network_file_system(tmp_path / "not" / "yet", mounts) == kind
    assert host._network_file_system(Path("/elsewhere"), mounts) == ""


def test_a_disk_of_the_node_below_a_network_file_system_is_fine(tmp_path: Path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x / nfs rw 0 0\n/dev/sda {tmp_path} ext4 rw 0 0\n")
    assert host._network_file_system(tmp_path / "queue", mounts) == ""


def test_a_queue_folder_that_another_collector_has_locked_stops_a_start(tmp_path: Path):
    queue = tmp_path / "exporter_otlp_grpc_sink_traces"
    queue.touch()
    changed = configuration(extensions={"file_storage": {"directory": str(tmp_path)}})
    assert host.start_problems(changed) == []
    with queue.open("r+") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        (found,) = host.start_problems(changed)
    assert f"another collector uses the queue folder {tmp_path} ({queue.name} is locked)" in found


@pytest.mark.parametrize(
    ("exporter", "lock", "variable"),
    [
        ({"line_file/{}": {"path": "FOLDER/{}.jsonl"}}, ".traces.jsonl.in-use", "OTEL_RL_COLLECTOR_DATA_DIR"),
        (
            {"durable_otlp_grpc/{}": {"dead_letter": {"directory": "FOLDER"}}},
            ".in-use",
            "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR",
        ),
    ],
    ids=["files", "dead letters"],
)
def test_a_folder_that_another_collector_writes_into_stops_a_start_and_names_it(
    tmp_path: Path, exporter: dict[str, Any], lock: str, variable: str
):
    text = json.dumps(exporter)[1:-1].replace("FOLDER", str(tmp_path))
    exporters = "{" + ", ".join(text.replace("{}", signal) for signal in ("traces", "logs")) + "}"
    changed = configuration(exporters=json.loads(exporters))
    (tmp_path / lock).write_text("process 7 on node3")
    assert host.start_problems(changed) == [], "its writer has ended"
    with (tmp_path / lock).open("r+") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        (found,) = host.start_problems(changed)
    assert found == (
        f"another collector writes into {tmp_path} (process 7 on node3); stop it, or set {variable} to a folder of its"
        " own for each"
    )


def test_a_taken_port_stops_a_start_and_names_its_variable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        changed = configuration(receivers={"otlp": {"protocols": {"grpc": {"endpoint": "${env:ADDRESS}"}}}})
        (found,) = host.start_problems(put_in(changed, {"ADDRESS": address}))
    assert f"otlp grpc: cannot listen on {address} (Address already in use)" in found
    assert "OTEL_RL_COLLECTOR_GRPC_PORT" in found


@pytest.mark.parametrize("address", ["192.0.2.1", "host.invalid", "x" * 70], ids=["address", "name", "no name"])
@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"receivers": {"otlp": {"protocols": {"http": {"endpoint": "HOST:0"}}}}}, "OTEL_RL_COLLECTOR_LISTEN"),
        ({"extensions": {"health_status": {"endpoint": "HOST:0"}}}, "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT"),
    ],
    ids=["receiver", "health"],
)
def test_an_address_that_is_not_of_this_machine_names_the_variable_of_the_address(
    changes: dict[str, Any], variable: str, address: str
):
    changed = json.loads(json.dumps(configuration(**changes)).replace("HOST", address))
    (found,) = host.start_problems(changed)
    assert f"cannot listen on {address}:0" in found
    assert found.endswith(f"set {variable} to an address of this machine")


@pytest.mark.parametrize("endpoint", ["127.0.0.1:http-alt", "127.0.0.1", "127.0.0.1:99999"])
def test_a_port_that_is_none_stops_a_start(endpoint: str):
    changed = configuration(receivers={"otlp": {"protocols": {"grpc": {"endpoint": endpoint}}}})
    (found,) = host.start_problems(changed)
    assert f"cannot listen on {endpoint}" in found


def test_a_folder_of_the_file_sink_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    (found,) = problems({"exporters": {"line_file/traces": {"path": f"{tmp_path}/file/traces.jsonl"}}})
    assert "cannot be written" in found
    assert "OTEL_RL_COLLECTOR_DATA_DIR" in found


PORTS = {
    "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:${env:OTEL_RL_COLLECTOR_GRPC_PORT:-4317}"}}}}
}
MEMORY = {
    "processors": {
        "memory_limiter": {
            "limit_mib": "${env:OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB:-512}",
            "spike_limit_mib": 128,
        }
    }
}


@pytest.mark.parametrize(
    ("changes", "name", "value", "message"),
    [
        (PORTS, "GRPC_PORT", "99999", "=99999 is not a whole number from 0 to 65535; correct or unset it"),
        (PORTS, "GRPC_PORT", "²", "=² is not a whole number from 0 to 65535"),
        (PORTS, "GRPC_PORT", "x", "=x is not a whole number from 0 to 65535"),
        (MEMORY, "MEMORY_LIMIT_MIB", "0", "=0 is not a whole number of at least 1"),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE:-10}"},
            "SAMPLED_PERCENTAGE",
            "101",
            "=101 is not a number from",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_DECISION_WAIT:-10s}"},
            "DECISION_WAIT",
            "120",
            "=120 is not a duration such as",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_DECISION_WAIT:-10s}"},
            "DECISION_WAIT",
            "0s",
            "=0s is not a duration such as 500ms, 15s or 2m, above 0s",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_ROOT_WAIT:-10s}"},
            "ROOT_WAIT",
            "1.5s",
            "=1.5s is not a duration in whole seconds, such as 10s",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_GATEWAY}"},
            "GATEWAY",
            "gw:99999",
            "=gw:99999 is not host:port, such as gateway:4317 or [::1]:4317, with a port up to 65535",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_LOKI_URL:-}"},
            "LOKI_URL",
            "http://loki:99999/x",
            "=http://loki:99999/x is not a URL that begins with http:// or https:// and a host",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_INSTANCE:-}"},
            "INSTANCE",
            'node"7',
            '=node"7 is not a name without quotes, backslashes and dollar signs',
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_DATA_DIR:-}"},
            "DATA_DIR",
            "~/x",
            f"=~/x is not a path: only a shell knows ~; write {Path.home()}/x; correct or unset it",
        ),
        (
            {"a": "${env:OTEL_RL_COLLECTOR_LISTEN:-127.0.0.1}"},
            "LISTEN",
            "0.0.0.0:4317",
            "=0.0.0.0:4317 is not an address or a host name without a port, such as 0.0.0.0 or ::1",
        ),
        ({}, "GRPC_PROT", "1", " is set, but nothing reads it; did you mean OTEL_RL_COLLECTOR_GRPC_PORT?"),
        ({}, "ZZZ", "1", " is set, but nothing reads it; unset it"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(changes: dict[str, Any], name: str, value: str, message: str):
    (found,) = problems(changes, **{f"OTEL_RL_COLLECTOR_{name}": value})
    assert f"OTEL_RL_COLLECTOR_{name}{message}" in found


def test_variables_that_this_configuration_does_not_read_are_not_judged():
    assert problems({}, OTEL_RL_COLLECTOR_GRPC_PORT="x", OTEL_RL_COLLECTOR_GATEWAY_12="", OTEL_RL_OTHER="x") == []


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("SPAN_BUDGET", "write extensions.trace_budget.spans_per_second into a file of yours, add --with-file FILE"),
        ("GATEWAY_COUNT", "add --gateways N to role gateway and unset it"),
        ("TEMPO_CA_FILE", "write exporters.durable_otlp_http/tempo.tls.ca_file into a file of yours"),
        ("OTLP_TENANT", "write exporters.durable_otlp_grpc/sink.headers.X-Scope-OrgID into a file of yours"),
        ("GATEWAY_USERNAME", "write extensions.basicauth/gateway.client_auth.username into a file of yours"),
        ("LOKI_TOKEN_FILE", "write extensions.bearertokenauth/loki.filename into a file of yours"),
    ],
)
def test_a_removed_variable_is_refused_with_its_replacement(name: str, instead: str):
    (problem,) = problems({}, **{f"OTEL_RL_COLLECTOR_{name}": "any"})
    assert f"OTEL_RL_COLLECTOR_{name} is set, but no longer read; {instead}" in problem
    assert problem.endswith("unset it")


def test_variables_that_are_read_are_not_among_the_removed_ones():
    names = {name for file in folder().rglob("*.yaml") for name in names_in(file.read_text())}
    current = {name.removeprefix(variable_values.PREFIX) for name in names}
    assert {name for name in current if removed_variables.replacement(name)} == {
        "GATEWAY_CA_FILE",
        "GATEWAY_TOKEN_FILE",
    }
    assert problems({}, **{f"{variable_values.PREFIX}{name}": "file" for name in current}) == []


@pytest.mark.parametrize("section", ["extensions", "processors"])
def test_a_memory_spike_that_is_not_below_the_limit_is_refused(section: str):
    changes = {"processors": MEMORY["processors"], section: MEMORY["processors"]}
    actual = put_in(configuration(**changes), {"OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": "128"})
    found_in = [problem.partition(" ")[0] for problem in settings.memory(actual)]
    assert f"{section}.memory_limiter.spike_limit_mib" in found_in
    assert list(settings.memory(put_in(configuration(**changes), {}))) == []


@pytest.mark.parametrize(
    "extension",
    [
        {"bearertokenauth/sink": {"filename": None}},
        {"basicauth/sink": {"client_auth": {"username": None}}},
        {"basicauth/sink": {"client_auth": {"password_file": None}}},
        {"basicauth/receiver": {"htpasswd": {"file": None}}},
    ],
)
def test_what_an_option_leaves_to_a_file_of_the_site_has_to_be_there(extension: dict[str, Any]):
    (problem,) = settings.left_open({"extensions": extension})
    assert problem.startswith(f"extensions.{next(iter(extension))}.")
    assert problem.endswith("has no value; write it into a file of yours and add --with-file FILE")


def test_a_header_without_a_value_is_refused_and_a_component_without_settings_is_not():
    exporters = {"otlp_grpc/sink": {"headers": {"X-Scope-OrgID": None}}, "debug": None}
    (problem,) = settings.left_open({"exporters": exporters})
    assert problem.startswith("exporters.otlp_grpc/sink.headers.X-Scope-OrgID has no value")


def test_a_root_that_waits_longer_than_a_trace_without_one_is_refused():
    given = {
        "decision_wait": "${env:OTEL_RL_COLLECTOR_DECISION_WAIT:-120s}",
        "decision_wait_after_root_received": "${env:OTEL_RL_COLLECTOR_ROOT_WAIT:-10s}",
    }
    changes = {"processors": {"tail_sampling": given}}
    (problem,) = problems(changes, OTEL_RL_COLLECTOR_ROOT_WAIT="3m")
    assert "OTEL_RL_COLLECTOR_ROOT_WAIT (3m) is longer than OTEL_RL_COLLECTOR_DECISION_WAIT (120s)" in problem
    assert problems(changes, OTEL_RL_COLLECTOR_ROOT_WAIT="2m") == []


@pytest.mark.parametrize("exporter", ["dead letters", "files"])
def test_a_queue_in_a_folder_that_is_written_otherwise_is_refused(tmp_path: Path, exporter: str):
    folder = str(tmp_path / "one")
    writes = {"dead_letter": {"directory": folder}} if exporter == "dead letters" else {"path": f"{folder}/x.jsonl"}
    variable = "DEAD_LETTER_DIR" if exporter == "dead letters" else "DATA_DIR"
    changes = {"extensions": {"file_storage": {"directory": f"{folder}/"}}, "exporters": {"otlp_grpc/sink": writes}}
    (problem,) = problems(changes)
    assert f"file_storage locks {folder}, where otlp_grpc/sink writes too" in problem
    assert f"set OTEL_RL_COLLECTOR_QUEUE_DIR and OTEL_RL_COLLECTOR_{variable} to different folders" in problem


def test_fingerprints_without_their_key_are_refused():
    given = {"enabled": True, "key": "${env:OTEL_RL_COLLECTOR_FINGERPRINT_KEY:-}"}
    changes = {"processors": {"secret_redaction": {"fingerprints": given}}}
    (problem,) = problems(changes)
    assert "fingerprints are on, but OTEL_RL_COLLECTOR_FINGERPRINT_KEY is not set; set the same key" in problem
    assert problems(changes, OTEL_RL_COLLECTOR_FINGERPRINT_KEY="k") == []


@pytest.mark.parametrize(
    "exporter",
    [{"line_file/traces": {"path": "data/traces.jsonl"}}, {"otlp_grpc/sink": {"dead_letter": {"directory": "./data"}}}],
    ids=["files", "dead letters"],
)
def test_reading_the_folder_that_is_written_is_refused(exporter: dict[str, Any]):
    reading = {"receivers": {"otlp_json_file/replay": {"include": ["${env:FOLDER}/*.jsonl"]}}, "exporters": exporter}
    (found,) = problems(reading, FOLDER="data")
    assert "otlp_json_file/replay reads " in found
    assert "everything would go round for ever" in found
    assert problems(reading, FOLDER="elsewhere") == []


@pytest.mark.parametrize(("pattern", "is_refused"), [("*", False), ("*/*", True), ("**/*", True), ("old/*", False)])
def test_reading_the_folder_of_this_start_with_those_of_others_is_refused(pattern: str, is_refused: bool):
    reading = {
        "receivers": {"otlp_json_file/replay": {"include": [f"./otel-rl/collector/{pattern}.jsonl"]}},
        "exporters": {"line_file/traces": {"path": "otel-rl/collector/20260101T000000Z-a-7/traces.jsonl"}},
    }
    assert bool(problems(reading)) == is_refused
