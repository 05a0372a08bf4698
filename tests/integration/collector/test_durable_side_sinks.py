"""A file sink beside a backend, with the real binary: what it cannot store holds nobody back and is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shipped_settings
from collector_process import CollectorProcess, wait_for
from otlp import metric_resource, span, trace_resource
from otlp_backend import OtlpBackend
from test_durable_delivery import LGTM, logs, metric, to
from test_durable_full_queues import accepted

if TYPE_CHECKING:
    from pathlib import Path

BOTH = [*LGTM, "sinks/file.yaml"]
ONLY = ["gateway.yaml", "sinks/file.yaml"]
LONG = "x" * 20_000
DROPPED = "otelcol_processor_side_sink_dropped_items"
FAILED = "otelcol_exporter_send_failed"
SIGNALS = {"traces": "spans", "metrics": "metric_points", "logs": "log_records"}


def full_folder(folder: Path) -> str:
    """Make a folder whose files cannot take a byte."""
    folder.mkdir()
    for signal in SIGNALS:
        (folder / f"{signal}.jsonl").symlink_to("/dev/full")
    return str(folder)


def one_of_each(number: int) -> dict[str, list[dict]]:
    """A step, a metric and a log record that are longer than the buffer of a file."""
    trace_id = f"{number + 1:032x}"
    return {
        "traces": [trace_resource([span("rl.loop", {"padding": LONG}, trace_id=trace_id)])],
        "metrics": [metric_resource(f"metric.{LONG}", 0.5)],
        "logs": logs(LONG),
    }


def test_a_full_disk_of_a_file_sink_makes_no_duplicates_in_the_others(otelcol_rl: Path, tmp_path: Path):
    full = {"OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full")}
    with (
        OtlpBackend() as backend,
        CollectorProcess(otelcol_rl, BOTH, tmp_path, to(backend, **full)) as gateway,
    ):
        sent: list[str] = []

        def dropping() -> bool:
            sent.append(f"record {len(sent)} {LONG}")
            assert accepted(lambda: gateway.send("logs", logs(sent[-1]))), "the file sink holds the sender back"
            return metric(gateway, DROPPED, data_type="logs") >= 10

        wait_for(dropping, "the file sink to drop")
        wait_for(lambda: set(backend.taken) >= set(sent), "the backend to have all")
        assert len([body for body in backend.taken if body in sent]) == len(sent)
        assert "they are dropped for it and counted" in gateway.log()


def test_a_file_sink_that_is_the_only_one_may_push_back(otelcol_rl: Path, tmp_path: Path):
    more = {
        "OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full"),
        shipped_settings.SIDE_SINK_WHEN_FULL: "push_back",
    }
    with CollectorProcess(otelcol_rl, ONLY, tmp_path, more) as gateway:
        wait_for(lambda: not accepted(lambda: gateway.send("logs", logs(LONG))), "the sender to be told")


def test_what_a_file_sink_drops_its_exporter_counts_as_failed_too(otelcol_rl: Path, tmp_path: Path):
    """The rule about lost data takes one of the two numbers."""
    full = {"OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full"), "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s"}
    with CollectorProcess(otelcol_rl, ONLY, tmp_path, full) as gateway:
        for number in range(3):
            for signal, resources in one_of_each(number).items():
                gateway.send(signal, resources)
        for signal, items in SIGNALS.items():
            labels = {"exporter": f"line_file/{signal}"}

            def counted(signal: str = signal, items: str = items, labels: dict[str, str] = labels) -> bool:
                dropped = metric(gateway, DROPPED, data_type=signal)
                return 3 <= dropped == metric(gateway, f"{FAILED}_{items}", **labels)

            wait_for(counted, f"as many {signal} dropped as failed")


def test_traces_that_a_file_sink_pushes_back_to_the_sampler_are_only_counted_as_failed(
    otelcol_rl: Path, tmp_path: Path
):
    more = {
        "OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full"),
        shipped_settings.SIDE_SINK_WHEN_FULL: "push_back",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
    }
    with CollectorProcess(otelcol_rl, ONLY, tmp_path, more) as gateway:
        for number in range(3):
            assert accepted(lambda number=number: gateway.send("traces", one_of_each(number)["traces"]))
        wait_for(lambda: metric(gateway, f"{FAILED}_spans", exporter="line_file/traces") == 3, "the steps to fail")
        assert metric(gateway, DROPPED) == 0
        assert metric(gateway, "otelcol_receiver_refused_spans") == 0
