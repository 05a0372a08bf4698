"""Which exporters the environment means."""

from __future__ import annotations

import pytest

from otel_rl.pipeline import exporter_selection


@pytest.mark.parametrize(
    ("environ", "traces"),
    [
        ({}, (exporter_selection.FILE,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, (exporter_selection.OTLP_HTTP,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4317"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/api/otel"}, (exporter_selection.OTLP_HTTP,)),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "c:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            (exporter_selection.OTLP_HTTP,),
        ),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, (exporter_selection.OTLP_HTTP,)),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c:4318/v1/logs"}, (exporter_selection.FILE,)),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ()),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_TRACES_EXPORTER": "OTLP"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_TRACES_EXPORTER": "Console"}, ("console",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[bad"}, (exporter_selection.OTLP_GRPC,)),
        ({"OTEL_TRACES_EXPORTER": "console, otel_rl_file"}, ("console", exporter_selection.FILE)),
    ],
)
def test_exporters_of_a_signal(environ, traces):
    chosen = exporter_selection.choose(environ)

    assert chosen.exporters["traces"] == traces
    assert chosen.complaints == ()


@pytest.mark.parametrize(
    ("environ", "traces"),
    [
        ({"OTEL_TRACES_EXPORTER": "nonsense"}, (exporter_selection.FILE,)),
        (
            {"OTEL_TRACES_EXPORTER": "nonsense", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"},
            (exporter_selection.OTLP_HTTP,),
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "smoke", "OTEL_TRACES_EXPORTER": "otlp"},
            (exporter_selection.OTLP_GRPC,),
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/other", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:9"},
            (exporter_selection.OTLP_HTTP,),
        ),
    ],
)
def test_variable_that_makes_no_sense_is_told_once_and_replaced(environ, traces):
    chosen = exporter_selection.choose(environ)

    assert chosen.exporters["traces"] == traces
    assert len(chosen.complaints) == 1


def test_description_hides_credentials_and_creates_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    described = exporter_selection.describe(
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://user:secret@c:4318/v1/traces?key=secret"}
    )

    assert described["signals"]["traces"] == [
        {"exporter": exporter_selection.OTLP_HTTP, "destination": "https://c:4318/v1/traces"}
    ]
    assert described["signals"]["metrics"][0]["destination"].startswith(str(tmp_path / "otel-rl"))
    assert "secret" not in str(described)
    assert list(tmp_path.iterdir()) == []
