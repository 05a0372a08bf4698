"""What leaves the machine: `--with-file`, choices for the wire that do not fit, and plaintext that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_rl.cli import main

pytest.importorskip("ruamel.yaml")

from ruamel.yaml import YAML

OWN = """\
# own.yaml: what this site adds.
extensions:
  zpages:
    endpoint: 127.0.0.1:0
  bearertokenauth/vendor:
    filename: /run/secrets/vendor

exporters:
  otlp_http/vendor:
    endpoint: https://vendor.invalid
    auth: {authenticator: bearertokenauth/vendor}
    sending_queue: {queue_size: "${env:OTEL_RL_COLLECTOR_OF_THIS_SITE:-1000}"}

service:
  pipelines:
    traces/vendor: {receivers: [forward/traces_out], exporters: [otlp_http/vendor]}
"""
PLAINTEXT_SINK = """\
extensions: {bearertokenauth/sink: {filename: file}}
exporters: {durable_otlp_grpc/sink: {tls: {insecure: true}}}
"""
LOCAL = ["collector", "config", "--role", "local", "--no-validate"]


pytestmark = pytest.mark.usefixtures("no_program")


def refusal(capsys: Any, text: str, *arguments: str) -> str:
    """What is said about this own file."""
    Path("own.yaml").write_text(text)
    assert main([*LOCAL, *arguments, "--with-file", "own.yaml"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return str(said.err)


def test_it_is_merged_last_and_its_blocks_carry_its_name(capsys: Any) -> None:
    Path("own.yaml").write_text(OWN)
    assert main([*LOCAL, "--with", "debug", "--with-file", "own.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "#   otel-rl collector config --role local --with debug --with-file own.yaml\n" in printed
    assert "#   own.yaml: what this site adds.\n" in printed
    assert "# from own.yaml\n" in printed
    configuration = YAML(typ="safe").load(printed)
    assert configuration["exporters"]["otlp_http/vendor"]["endpoint"] == "https://vendor.invalid"


def test_its_extensions_start_and_its_credential_files_are_looked_at(capsys: Any) -> None:
    Path("own.yaml").write_text(OWN)
    assert main([*LOCAL, "--with-file", "own.yaml"]) == 0
    configuration = YAML(typ="safe").load(capsys.readouterr().out)
    shipped = ["memory_limiter", "request_guard", "health_status"]
    assert configuration["service"]["extensions"] == [*shipped, "bearertokenauth/vendor", "credential_files", "zpages"]
    assert configuration["extensions"]["credential_files"] == {
        "required": {"secrets": {"extensions.bearertokenauth/vendor.filename": "/run/secrets/vendor"}}
    }


def test_several_files_and_settings_of_shipped_parts_are_merged_in_order(capsys: Any) -> None:
    for number in (1, 2):
        Path(f"{number}.yaml").write_text(f"processors: {{memory_limiter: {{check_interval: {number}s}}}}\n")
    assert main([*LOCAL, "--with-file", "1.yaml", "--with-file", "2.yaml"]) == 0
    configuration = YAML(typ="safe").load(capsys.readouterr().out)
    assert configuration["processors"]["memory_limiter"]["check_interval"] == "2s"


@pytest.mark.parametrize(
    "text",
    [
        "processors:\n    memory_limiter:\n        check_interval: 2s\n",
        "---\nprocessors:\n  memory_limiter:\n    check_interval: 2s\n...\n",
        "processors: {memory_limiter: {check_interval: 2s}}\n",
        '{"processors": {"memory_limiter": {"check_interval": "2s"}}}\n',
        "# only a comment before\n\nprocessors:\n  # why\n  memory_limiter:\n\n    check_interval: '2s' # how often\n",
    ],
    ids=["four spaces", "marks of a document", "one line", "JSON", "comments"],
)
def test_its_layout_does_not_matter(capsys: Any, text: str) -> None:
    Path("own.yaml").write_text(text)
    assert main([*LOCAL, "--with-file", "own.yaml"]) == 0
    configuration = YAML(typ="safe").load(capsys.readouterr().out)
    assert configuration["processors"]["memory_limiter"]["check_interval"] == "2s"
    assert configuration["processors"]["memory_limiter"]["limit_mib"]


def test_its_variables_may_have_our_prefix(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("token")
    Path("own.yaml").write_text(OWN.replace("/run/secrets/vendor", str(tmp_path / "vendor")))
    monkeypatch.setenv("OTEL_RL_COLLECTOR_OF_THIS_SITE", "7")
    assert main(["collector", "config", "--role", "local", "--with-file", "own.yaml"]) == 0
    assert "nothing reads it" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n", "--with-file own.yaml is empty; write a part of a configuration into it, or leave it out"),
        ("# nothing\n", "--with-file own.yaml is empty"),
        ("a: [1", "--with-file own.yaml is not YAML: "),
        ("exporters: {}\n---\nexporters: {}\n", "own.yaml is not YAML: line 2, column 1: but found another document"),
        ("headers:\n  a: Qx7-1\n  a: Qx7-2\n", 'line 3, column 3: found duplicate key "a"; correct it'),
        ("- a list", "own.yaml: its top level is no map; begin with exporters:"),
        ("exporter: {debug: {}}\n", "own.yaml: no section is named exporter; did you mean exporters?"),
        ("exporters:\n", "own.yaml: exporters is no map; write names and their settings below it"),
        ("exporters: {1: {}}\n", "own.yaml: exporters.1 is no name with a map of settings"),
        ("exporters: {debug: 3}\n", "own.yaml: exporters.debug is no name with a map of settings"),
        ("service: [a]\n", "own.yaml: service is no map; write pipelines: below it"),
        ("service: {pipelines: [a]}\n", "own.yaml: service.pipelines is no map"),
        ("service: {pipelines: {traces/x: {receivers: otlp}}}\n", "traces/x.receivers is no list of names"),
        ("service: {extensions: {zpages: {}}}\n", "own.yaml: service.extensions is no list of names"),
        ("exporters: {otlp_htp/x: {}}\n", "exporter otlp_htp/x: otelcol-rl is built without otlp_htp; did you mean"),
        (
            "service: {pipelines: {traces/x: {receivers: [otlp], exporters: [nothing]}}}\n",
            "pipeline traces/x names nothing, but exporters has no such entry",
        ),
        (
            OWN.replace("filename: /run/secrets/vendor", "token: Qx7-made-up"),
            "extensions.bearertokenauth/vendor.token holds a secret itself",
        ),
        (
            "exporters:\n  otlp_http/a: &own {endpoint: https://a.invalid}\nprocessors:\n  transform/b: *own\n",
            "own.yaml: cannot be merged as text; write every value out, without anchors",
        ),
    ],
)
def test_what_cannot_be_merged_or_cannot_work_is_refused(capsys: Any, text: str, says: str) -> None:
    said = refusal(capsys, text)
    assert says in said
    assert "Qx7" not in said


def test_a_file_that_is_not_there_or_no_text_is_named(capsys: Any) -> None:
    assert main([*LOCAL, "--with-file", "none.yaml"]) == 2
    assert (
        "--with-file none.yaml cannot be read (No such file or directory); correct the path" in capsys.readouterr().err
    )
    Path("own.yaml").write_bytes(b"\xff\xfe\x00")
    assert main([*LOCAL, "--with-file", "own.yaml"]) == 2
    assert "own.yaml cannot be read (no text in UTF-8)" in capsys.readouterr().err


def test_a_token_file_of_its_own_that_is_not_there_is_named_by_its_setting(capsys: Any) -> None:
    Path("own.yaml").write_text(OWN)
    assert main(["collector", "config", "--role", "local", "--with-file", "own.yaml"]) == 2
    said = capsys.readouterr().err
    assert "extensions.bearertokenauth/vendor.filename: /run/secrets/vendor does not exist; put the file there" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--role", "gateway", "--sink", "file", "--with", "token"], "token needs tls with role gateway: without TLS"),
        (["--role", "agent", "--with", "basic"], "basic needs tls with role agent: without TLS everybody on the way"),
        (["--role", "local", "--with", "mutual-tls"], "mutual-tls needs tls with role local: a certificate is shown"),
        (["--role", "agent", "--with", "tls", "mutual-tls"], "mutual-tls needs receiver-tls with role agent"),
        (["--role", "local", "--with", "token", "basic"], "token and basic cannot be combined: a connection carries"),
        (["--role", "agent", "--with", "receiver-token", "receiver-basic"], "cannot be combined: a receiver asks"),
        (["--role", "local", "--with", "receiver-tls"], "option receiver-tls does not fit role local, only agent"),
        (
            ["--role", "gateway", "--sink", "file", "--with", "sink-token"],
            "option sink-token changes nothing here: it is for --sink lgtm or mlflow or otlp or opik or phoenix;",
        ),
        (["--role", "agent", "--with", "tenant"], "give the sink to the gateway"),
    ],
)
def test_choices_for_the_wire_that_do_not_fit_are_refused(capsys: Any, arguments: list[str], says: str) -> None:
    assert main(["collector", "config", *arguments]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (
            ["--role", "local", "--with", "token"],
            {"LISTEN": "10.0.0.1", "TOKEN_FILE": "file"},
            "otlp http asks for credentials on 10.0.0.1:4318 without TLS",
        ),
        (
            ["--role", "agent", "--with", "tls"],
            {"LISTEN": "10.0.0.1", "GATEWAY": "gw:4317"},
            "otlp grpc listens on 10.0.0.1:4317 without TLS; add --with receiver-tls",
        ),
        (
            ["--role", "local", "--sink", "otlp", "--with", "sink-token", "--with-file", "own.yaml"],
            {"OTLP_ENDPOINT": "vendor:4317"},
            "durable_otlp_grpc/sink sends credentials to vendor:4317 without TLS; add --with tls",
        ),
        (
            ["--role", "gateway", "--sink", "lgtm", "--with", "tls"],
            {"LOKI_URL": "http://loki:3100", "TLS_CERT_FILE": "file", "TLS_KEY_FILE": "file"},
            "durable_otlp_http/loki sends everything to http://loki:3100/otlp without TLS; write https:// into its URL",
        ),
    ],
)
def test_what_would_go_over_the_network_in_plaintext_is_refused(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], says: str
) -> None:
    Path("file").write_text("any")
    Path("own.yaml").write_text(PLAINTEXT_SINK)
    for name, value in variables.items():
        monkeypatch.setenv(f"OTEL_RL_COLLECTOR_{name}", value)
    assert main(["collector", "config", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_credentials_that_an_option_leaves_to_a_file_are_named_by_their_settings(capsys: Any) -> None:
    arguments = ["collector", "config", "--role", "local", "--sink", "lgtm", "--with", "sink-basic", "tenant"]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    for name in ("loki", "prometheus", "tempo"):
        for key in ("username", "password_file"):
            assert f"extensions.basicauth/{name}.client_auth.{key} has no value; write it into a file of yours" in said
        assert f"exporters.durable_otlp_http/{name}.headers.X-Scope-OrgID has no value" in said


def test_what_it_says_of_the_first_gateway_holds_for_all_but_for_the_address(capsys: Any) -> None:
    Path("own.yaml").write_text(
        "exporters:\n"
        "  durable_otlp_grpc/gateway_1: {endpoint: one:1, tls: {cert_file: /own.pem, key_file: /own.key}}\n"
        "  durable_otlp_grpc/gateway_3: {tls: {cert_file: /third.pem}}\n"
    )
    arguments = ["collector", "config", "--role", "agent", "--gateways", "3", "--with", "tls", "--no-validate"]
    assert main([*arguments, "--with-file", "own.yaml"]) == 0
    exporters = YAML(typ="safe").load(capsys.readouterr().out)["exporters"]
    ways = [exporters[f"durable_otlp_grpc/gateway_{number}"] for number in (1, 2, 3)]
    assert [way["tls"]["cert_file"] for way in ways] == ["/own.pem", "/own.pem", "/third.pem"]
    assert [way["tls"]["key_file"] for way in ways] == ["/own.key"] * 3
    assert [way["endpoint"] for way in ways[1:]] == [
        f"${{env:OTEL_RL_COLLECTOR_GATEWAY_{number}}}" for number in (2, 3)
    ]
