"""Spans and log records as lines: errors apart, large batches in parts, and one odd item costs no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from otel_rl.pipeline import exporter_selection
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.sink import Sink
from otel_rl.semconv import events
from otel_rl.store.writer.file_exporter import FileExporter
from otel_rl.store.writer.file_store import SHARES, FileStore
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan


@pytest.fixture(autouse=True)
def no_drops():
    drops.reset()
    yield
    drops.reset()


def spans(*names: str) -> list[ReadableSpan]:
    """Ended spans of the real SDK; those that begin with ``failed`` have failed."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for name in names:
        span = provider.get_tracer("t").start_span(name)
        if name.startswith("failed"):
            span.set_status(Status(StatusCode.ERROR))
        span.end()
    return list(memory.get_finished_spans())


def make(root: Path, total_limit: int = 10**6) -> FileStore:
    return FileStore(str(root), lambda: "run/p", dict, file_limit=10**6, total_limit=total_limit, warn=lambda _: None)


def names_in(root: Path, stream: str) -> list[str]:
    return [
        span["name"]
        for file in sorted((root / "run/p").glob(f"{stream}-0*.jsonl"))
        for line in file.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_failed_spans_have_a_stream_of_their_own(tmp_path):
    exporter = FileExporter("traces", make(tmp_path))
    assert exporter.export(spans("a", "failed b", "c")).name == "SUCCESS"

    assert names_in(tmp_path, "traces") == ["a", "c"]
    assert names_in(tmp_path, "traces-errors") == ["failed b"]


def test_full_store_keeps_the_newest_and_the_errors(tmp_path):
    exporter = FileExporter("traces", make(tmp_path, total_limit=40_000))
    exporter.export(spans("failed early"))
    for number in range(200):
        exporter.export(spans(str(number)))

    kept = names_in(tmp_path, "traces")
    assert kept[-1] == "199"
    assert kept[0] != "0"
    assert names_in(tmp_path, "traces-errors") == ["failed early"]
    assert drops.snapshot() == {("traces", "store_full"): 200 - len(kept)}


def test_batch_longer_than_its_stream_is_written_in_parts(tmp_path):
    exporter = FileExporter("traces", make(tmp_path, total_limit=40_000))
    names = [str(number) for number in range(100)]
    exporter.export(spans(*names))

    kept = names_in(tmp_path, "traces")
    assert kept == names[-len(kept) :]
    assert len(kept) > 10


def test_span_that_cannot_be_encoded_costs_no_other(tmp_path):
    batch = spans("a", "odd", "b")
    batch[1]._name = object()
    store = make(tmp_path)
    sink = Sink("traces", Destination(exporter_selection.FILE, "there", True), lambda: FileExporter("traces", store))

    assert not sink.export(batch)
    assert names_in(tmp_path, "traces") == ["a", "b"]
    assert (sink.delivered, sink.lost) == (2, 1)
    assert drops.snapshot() == {("traces", "unencodable"): 1}


def test_copies_of_rows_have_files_of_their_own_and_take_no_room_from_records(tmp_path: Path) -> None:
    memory = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    for event in (events.RL_TRAJECTORIES_PENDING.name, events.RL_TRAJECTORIES.name):
        provider.get_logger("t").emit(LogRecord(event_name=event, severity_number=SeverityNumber.INFO, body="x" * 2000))
    copy, record = memory.get_finished_logs()
    store = make(tmp_path, total_limit=200_000)
    exporter = FileExporter("logs", store)
    assert exporter.export([record]).name == "SUCCESS"
    for _ in range(100):
        assert exporter.export([copy]).name == "SUCCESS"

    folder = tmp_path / "run/p"
    assert [path.name for path in folder.glob("logs-0*")] == ["logs-0001.jsonl"]
    assert events.RL_TRAJECTORIES.name + '"' in (folder / "logs-0001.jsonl").read_text()
    copies = list(folder.glob("logs-pending-*"))
    assert sum(path.stat().st_size for path in copies) <= SHARES["logs-pending"] * 200_000
    # The oldest copies are needed no more: nothing is lost.
    assert len(copies) > 1
    assert drops.snapshot() == {}
