"""Exporters by variable, and OTEL_CONFIG_FILE."""

from __future__ import annotations

import json
import sys

import pytest
from process_support import BOOTSTRAP, ONE_SPAN, Collector, Programs, silent_server

SHOW_RESOURCE = """
from opentelemetry import trace
print(dict(trace.get_tracer_provider().resource.attributes))
"""
CONFIGURATION = """
file_format: "1.1"
resource:
  attributes:
    - {{name: service.name, value: from-the-file}}
tracer_provider:
  processors:
    - batch:
        exporter: {{otlp_http: {{endpoint: "http://127.0.0.1:{port}/v1/traces"}}}}
meter_provider:
  readers:
    - periodic:
        exporter: {{otlp_http: {{endpoint: "http://127.0.0.1:{port}/v1/metrics"}}}}
"""


def test_explicit_exporter_wins_for_its_signal_only(programs: Programs, collector: Collector) -> None:
    done = programs.instrumented(
        ONE_SPAN,
        OTEL_TRACES_EXPORTER="console",
        OTEL_METRICS_EXPORTER="otel_rl_file",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert '"name": "work"' in done.out
    assert set(collector.requests) == {"/v1/logs"}
    assert [point["asInt"] for point in programs.store.points("made")] == ["1"]
    assert programs.store.spans() == []


def test_endpoint_of_one_signal_leaves_the_others_in_files(programs: Programs, collector: Collector) -> None:
    programs.instrumented(ONE_SPAN, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{collector.port}/v1/traces")

    assert set(collector.requests) == {"/v1/traces"}
    assert len(programs.store.points("made")) == 1


def test_unknown_exporter_costs_one_line_and_the_default_is_used(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN, OTEL_TRACES_EXPORTER="nonsense", OTEL_RL_QUIET="1")

    assert done.code == 0
    (line,) = done.err.splitlines()
    assert 'OTEL_TRACES_EXPORTER="nonsense"' in line
    assert programs.store.span_names() == ["work"]


def test_metrics_are_exported_every_so_often_while_the_program_runs(programs: Programs) -> None:
    programs.instrumented(
        ONE_SPAN + "import glob, time\n"
        "while not any('made' in open(name).read() for name in glob.glob('otel-rl/*/*/metrics-*')): time.sleep(0.01)\n"
        "metrics.get_meter('program').create_counter('made').add(1)\n",
        OTEL_METRIC_EXPORT_INTERVAL="200",
    )

    assert programs.store.points("made")[0]["asInt"] == "1"
    assert programs.store.points("made")[-1]["asInt"] == "2"


def test_temporality_preference_of_otlp_is_honoured(programs: Programs, collector: Collector) -> None:
    text = (
        "from opentelemetry import metrics\n"
        "reader = metrics.get_meter_provider()._metric_readers[0]\n"
        "print({value.name for value in reader._instrument_class_temporality.values()})\n"
    )
    done = programs.instrumented(
        text,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="delta",
    )

    assert "DELTA" in done.out


def test_configuration_file_wins_and_our_part_still_works(programs: Programs, collector: Collector) -> None:
    pytest.importorskip("opentelemetry.configuration")
    programs.write("otel.yaml", CONFIGURATION.format(port=collector.port))
    status = programs.directory / "status.json"
    done = programs.instrumented(
        SHOW_RESOURCE + ONE_SPAN + "raise SystemExit(4)",
        OTEL_CONFIG_FILE="otel.yaml",
        OTEL_RL_STATUS_FILE=str(status),
        RANK="3",
    )

    assert done.code == 4
    assert done.err == ""
    assert "'service.name': 'from-the-file'" in done.out
    assert "'rl.rank': 3" in done.out
    assert {"/v1/traces", "/v1/metrics"} == set(collector.requests)
    assert json.loads(status.read_text())["otel_rl_openai"]["state"] == "waiting"
    assert not (programs.directory / "otel-rl").exists()


def test_configuration_file_with_a_hanging_collector_ends_in_time(programs: Programs) -> None:
    pytest.importorskip("opentelemetry.configuration")
    with silent_server() as port:
        programs.write("otel.yaml", CONFIGURATION.format(port=port))
        done = programs.instrumented(ONE_SPAN, OTEL_CONFIG_FILE="otel.yaml", OTEL_RL_EXIT_TIMEOUT="1")
        # The collector still has not answered.
        assert done.code == 0
    assert "no answer in time" in done.err


def test_configuration_file_that_cannot_be_used_costs_one_line(programs: Programs) -> None:
    programs.write("otel.yaml", "file_format: [")
    done = programs.instrumented(ONE_SPAN, OTEL_CONFIG_FILE="otel.yaml", OTEL_RL_QUIET="1")

    assert done.code == 0
    (line,) = done.err.splitlines()
    assert "OTEL_CONFIG_FILE" in line
    assert programs.store.span_names() == ["work"]


def test_configuration_file_without_its_package_says_what_to_install(programs: Programs) -> None:
    text = "import sys; sys.modules['opentelemetry.configuration'] = None\n"
    programs.write("site/sitecustomize.py", text)
    programs.write("otel.yaml", CONFIGURATION.format(port=1))
    done = programs.child(
        sys.executable,
        "-c",
        ONE_SPAN,
        OTEL_CONFIG_FILE="otel.yaml",
        OTEL_RL_CHILDREN="all",
        OTEL_RL_QUIET="1",
        PYTHONPATH=f"{BOOTSTRAP}:{programs.directory / 'site'}",
    )

    (line,) = done.err.splitlines()
    assert "pip install opentelemetry-configuration" in line
    assert programs.store.span_names() == ["work"]


def test_variables_that_make_no_sense_are_told_once_per_launch(programs: Programs) -> None:
    done = programs.instrumented(
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print, args=('ran',))\n"
        "    process.start(); process.join()\n",
        OTEL_RL_SLOWEST="some",
        OTEL_TRACES_EXPORTER="nonsense",
        OTEL_BSP_SCHEDULE_DELAY="soon",
    )

    assert done.out == "ran\n"
    assert len(done.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OTEL_PYTHON_ID_GENERATOR", "nonsense"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "-1"),
        ("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "1.5"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "nonsense"),
    ],
)
def test_value_that_the_sdk_refuses_costs_one_line_and_the_default_is_used(
    programs: Programs, variable: str, text: str
) -> None:
    done = programs.instrumented(ONE_SPAN + "print('ran')", **{variable: text})

    assert (done.code, done.out) == (0, "ran\n")
    complaint, last = done.err.splitlines()
    assert f'{variable}="{text}" cannot be used' in complaint
    assert last.startswith("otel-rl: recorded 2 spans")
    assert programs.store.span_names() == ["work"]


def test_endpoint_that_is_no_address_is_named_and_the_data_kept(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN + "print('ran')", OTEL_EXPORTER_OTLP_ENDPOINT="http://[bad")

    assert (done.code, done.out) == (0, "ran\n")
    assert "could not be delivered to http://[bad" in done.err.splitlines()[-1]
    assert programs.store.span_names() == ["work"]


def test_configurator_that_is_not_installed_is_named(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN + "print('ran')", OTEL_PYTHON_CONFIGURATOR="nonsense")

    assert (done.code, done.out) == (0, "ran\n")
    (line,) = done.err.splitlines()
    assert 'OTEL_PYTHON_CONFIGURATOR="nonsense" is not an installed configurator; nothing is recorded' in line


def test_metric_exporter_that_cannot_be_opened_stops_no_other_signal(programs: Programs) -> None:
    # As a Prometheus exporter whose port another rank has: it is opened at the start.
    done = programs.instrumented(
        ONE_SPAN + "print('ran')",
        OTEL_METRICS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="delta",
        OTEL_EXPORTER_OTLP_METRICS_TIMEOUT="soon",
    )

    assert (done.code, done.out) == (0, "ran\n")
    complaint, last = done.err.splitlines()
    assert "this process exports no metrics with it, everything else goes on" in complaint
    assert last.startswith("otel-rl: recorded 2 spans and 2 log records")
    assert programs.store.span_names() == ["work"]


def test_number_without_end_counts_as_none(programs: Programs) -> None:
    done = programs.instrumented(ONE_SPAN, OTEL_BSP_MAX_QUEUE_SIZE="inf", OTEL_RL_QUIET="1")

    (line,) = done.err.splitlines()
    assert 'OTEL_BSP_MAX_QUEUE_SIZE="inf"' in line
    assert programs.store.span_names() == ["work"]
