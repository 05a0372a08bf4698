"""A file sink beside a backend, with the real binary: what it cannot store holds nobody back and is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collector_process import CollectorProcess, wait_for
from otlp_backend import OtlpBackend
from test_durable_delivery import LGTM, logs, metric, to
from test_durable_full_queues import accepted

if TYPE_CHECKING:
    from pathlib import Path

BOTH = [*LGTM, "sinks/file.yaml"]
DROPPED = "otelcol_processor_side_sink_dropped_items"


def full_folder(folder: Path) -> str:
    """Make a folder whose file for logs cannot take a byte."""
    folder.mkdir()
    (folder / "logs.jsonl").symlink_to("/dev/full")
    return str(folder)


def test_a_full_disk_of_a_file_sink_makes_no_duplicates_in_the_others(otelcol_rl: Path, tmp_path: Path):
    full = {"OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full")}
    with (
        OtlpBackend() as backend,
        CollectorProcess(otelcol_rl, BOTH, tmp_path, to(backend, **full)) as gateway,
    ):
        sent: list[str] = []

        def dropping() -> bool:
            sent.append(f"record {len(sent)} " + "x" * 20_000)
            assert accepted(lambda: gateway.send("logs", logs(sent[-1]))), "the file sink holds the sender back"
            return metric(gateway, DROPPED, data_type="logs") >= 10

        wait_for(dropping, "the file sink to drop")
        wait_for(lambda: set(backend.taken) >= set(sent), "the backend to have all")
        assert len([body for body in backend.taken if body in sent]) == len(sent)
        assert "they are dropped for it and counted" in gateway.log()


def test_a_file_sink_that_is_the_only_one_may_push_back(otelcol_rl: Path, tmp_path: Path):
    more = {
        "OTEL_RL_COLLECTOR_DATA_DIR": full_folder(tmp_path / "full"),
        "OTEL_RL_COLLECTOR_FILE_WHEN_FULL": "push_back",
    }
    only = ["gateway.yaml", "sinks/file.yaml"]
    with CollectorProcess(otelcol_rl, only, tmp_path, more) as gateway:
        wait_for(lambda: not accepted(lambda: gateway.send("logs", logs("x" * 20_000))), "the sender to be told")
