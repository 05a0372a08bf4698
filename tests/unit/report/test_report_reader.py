"""The reader finds runs where they are, and reads everything that can be read of them."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import GrpoRun, write_agent_run

from otel_rl.store.reader import Log, Point, Reader, Span, UnusableInput, find_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return GrpoRun(tmp_path / "data", steps=3).write()


def _records(path: Path, run: str | None = None) -> tuple[Reader, list[Any]]:
    reader = Reader(find_run(path, run))
    return reader, list(reader.records())


def _line(**span: Any) -> str:
    resource = {"attributes": [{"key": "rl.rank", "value": {"intValue": "0"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}) + "\n"


def test_a_run_is_read_whole(run: Path) -> None:
    reader, records = _records(run)
    steps = [record for record in records if isinstance(record, Span) and record.name == "rl.rank.step"]
    assert sorted((span.process.rank, span.attributes["rl.loop.iteration"]) for span in steps) == [
        (rank, iteration) for rank in (0, 1) for iteration in (1, 2, 3)
    ]
    logged = [record for record in records if isinstance(record, Log) and record.event == "rl.step"]
    assert logged[0].body["entropy"] == pytest.approx(2.4 - 0.6 + math.sin(1.7) * 0.03)
    assert [process.label for process in reader.processes] == ["rank 0", "rank 1"]
    assert reader.processes[0].manifest is not None


def test_a_manifest_whose_run_id_is_no_text_names_no_run(run: Path) -> None:
    for path in run.rglob("manifest.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"run_id": {"a": 1}}))
    assert find_run(run, None).run_id is None


def test_a_span_comes_after_the_spans_inside_it_whatever_their_scopes(tmp_path: Path) -> None:
    (tmp_path / "run" / "p").mkdir(parents=True)
    ends = {"outer scope": {"outer": (10, 90), "last": (0, 100)}, "inner scope": {"inner": (20, 80), "tied": (30, 80)}}
    scopes = [
        {
            "scope": {"name": scope},
            "spans": [
                {"name": name, "startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
                for name, (start, end) in spans.items()
            ],
        }
        for scope, spans in ends.items()
    ]
    line = json.dumps({"resourceSpans": [{"scopeSpans": scopes}]})
    (tmp_path / "run" / "p" / "traces-0001.jsonl").write_text(line + "\n", encoding="utf-8")
    _, records = _records(tmp_path)
    assert [record.name for record in records] == ["tied", "inner", "outer", "last"]


def test_the_two_ranks_meet_in_one_trace_and_it_can_be_read_alone(run: Path) -> None:
    reader, records = _records(run)
    trace = next(record.trace_id for record in records if isinstance(record, Span) and record.name == "rl.loop")
    spans = list(reader.traces({trace}))
    assert {span.trace_id for span in spans} == {trace}
    assert {span.process.rank for span in spans} == {0, 1}


def test_of_several_runs_the_newest_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    GrpoRun(tmp_path, run_id="old", steps=1, started=1_000_000_000_000_000_000).write()
    GrpoRun(tmp_path, run_id="new", steps=1, started=1_700_000_000_000_000_000).write()
    GrpoRun(tmp_path, run_id="middle", steps=1, started=1_500_000_000_000_000_000).write()
    source = find_run(tmp_path)
    assert (source.run_id, source.others) == ("new", ["middle", "old"])


def test_a_run_is_chosen_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    GrpoRun(tmp_path, run_id="alpha-1", steps=1).write()
    GrpoRun(tmp_path, run_id="alpha-2", steps=1).write()
    write_agent_run(tmp_path, "beta-1", rollouts=1)
    assert find_run(tmp_path, "beta").run_id == "beta-1"
    assert find_run(tmp_path, "alpha-2").run_id == "alpha-2"
    with pytest.raises(UnusableInput, match="2 runs begin with alpha"):
        find_run(tmp_path, "alpha")
    with pytest.raises(UnusableInput, match="holds no run gamma; it holds: "):
        find_run(tmp_path, "gamma")


def test_one_process_alone_can_be_read(run: Path) -> None:
    reader, records = _records(next(run.glob("*rank1*")))
    assert records
    assert [process.rank for process in reader.processes] == [1]


def test_a_collectors_files_are_read_with_their_rotated_parts_and_processes_told_apart(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    output = tmp_path / "collector"
    output.mkdir()
    for signal in ("traces", "metrics", "logs"):
        lines = [line for file in sorted(run.glob(f"*/{signal}-*.jsonl")) for line in file.read_text().splitlines()]
        (output / f"{signal}-2026-11-21T08-00-00.000.jsonl").write_text(lines[0] + "\n")
        (output / f"{signal}.jsonl").write_text("".join(line + "\n" for line in lines[1:]))
    reader, records = _records(output)
    assert reader.source.run_id == "grpo-7f3a"
    assert [process.rank for process in reader.processes] == [0, 1]
    assert len(records) == len(_records(run)[1])


def _written_by_collectors(folder: Path, run_id: str, *names: str) -> list[Path]:
    """Write a run as the files of several collectors, each of which got a part of each file."""
    run = GrpoRun(folder / "data" / run_id, run_id=run_id, steps=2).write()
    outputs = [folder / "otel-rl" / "collector" / name for name in names]
    for output in outputs:
        output.mkdir(parents=True, exist_ok=True)
    for signal in ("traces", "metrics", "logs"):
        lines = [line for file in sorted(run.glob(f"*/{signal}-*.jsonl")) for line in file.read_text().splitlines(True)]
        for number, output in enumerate(outputs):
            (output / f"{signal}.jsonl").write_text("".join(lines[number :: len(outputs)]))
    return outputs


def _at(moment: int, outputs: list[Path]) -> None:
    for file in (file for output in outputs for file in output.iterdir()):
        os.utime(file, (moment, moment))


@pytest.mark.parametrize("given", ["otel-rl", "otel-rl/collector"])
def test_the_folders_of_all_collectors_of_a_run_are_read_together(tmp_path: Path, given: str) -> None:
    outputs = _written_by_collectors(tmp_path, "whole", ".", "20260101T000000Z-a-7", "20260101T000500Z-a-9")
    (tmp_path / "otel-rl" / "collector" / "latest").symlink_to(outputs[-1])
    reader, records = _records(tmp_path / given)
    assert reader.source.path == tmp_path / "otel-rl" / "collector"
    assert [process.rank for process in reader.processes] == [0, 1]
    assert len(records) == len(_records(next((tmp_path / "data" / "whole").iterdir()))[1])


def test_of_two_jobs_beside_each_other_the_newest_is_read_from_its_own_folder(tmp_path: Path) -> None:
    first = _written_by_collectors(tmp_path, "first", "20260101T000000Z-a-7")
    second = _written_by_collectors(tmp_path, "second", "20260101T000000Z-a-8")
    _at(2000, first)
    _at(1000, second)
    os.utime(second[0] / "metrics.jsonl", (3000, 3000))  # of the collector itself, whose job has ended
    source = find_run(tmp_path / "otel-rl")
    assert (source.path, source.run_id, source.others, source.is_mixed) == (first[0], "first", ["second"], False)
    assert find_run(tmp_path / "otel-rl", "sec").path == second[0]
    (first[0] / "traces.jsonl").open("a").write((second[0] / "traces.jsonl").read_text())
    assert find_run(tmp_path / "otel-rl", "first").is_mixed


def test_records_that_name_no_run_are_read_where_no_other_run_is_in_the_files(tmp_path: Path) -> None:
    (output,) = _written_by_collectors(tmp_path, "first", "20260101T000000Z-a-7")
    _at(1000, _written_by_collectors(tmp_path, "second", "20260101T000000Z-a-8"))
    (output / "traces.jsonl").open("a").write(_line(name="an engine"))
    reader, records = _records(tmp_path / "otel-rl")
    assert "an engine" in {record.name for record in records if isinstance(record, Span)}
    assert reader.left_out == 0


def test_of_several_runs_in_a_collectors_files_only_the_chosen_one_is_read(tmp_path: Path) -> None:
    output = tmp_path / "collector"
    output.mkdir()
    text = ""
    for run_id in ("first", "second"):
        run = GrpoRun(tmp_path / "data", run_id=run_id, steps=1).write()
        text += "".join(file.read_text() for file in sorted(run.glob("*/traces-*.jsonl")))
    (output / "traces.jsonl").write_text(text)
    source = find_run(output)
    assert (source.run_id, source.others) == ("second", ["first"])
    reader, records = _records(output, "first")
    assert {record.process.resource["rl.run.id"] for record in records} == {"first"}
    assert reader.left_out == len(records)


def test_a_line_cut_off_at_the_end_is_counted_and_the_rest_is_read(run: Path) -> None:
    before = len(_records(run)[1])
    file = next(run.glob("*rank0*/traces-0001.jsonl"))
    with file.open("a") as stream:
        stream.write('{"resourceSpans": [{"reso')
    reader, records = _records(run)
    assert len(records) == before
    assert (reader.problems.cut_off, reader.problems.unreadable, reader.problems.foreign) == (1, 0, 0)
    assert reader.processes[0].unreadable.cut_off == 1


def test_broken_and_foreign_lines_are_counted_and_the_rest_is_read(run: Path) -> None:
    before = len(_records(run)[1])
    file = next(run.glob("*rank0*/logs-0001.jsonl"))
    file.write_text('not json\n{"level": "info"}\n[1, 2]\n\n' + file.read_text() + "\x00\x01\n")
    reader, records = _records(run)
    assert len(records) == before
    assert (reader.problems.cut_off, reader.problems.unreadable, reader.problems.foreign) == (0, 2, 2)


def test_every_spelling_that_otlp_json_allows_is_understood(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "host-rank0-00000000"
    folder.mkdir(parents=True)
    value = {
        "name": "s",
        "traceId": "ABCDEF0123456789ABCDEF0123456789",
        "spanId": "ABCDEF0123456789",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": 1700000001500000000,
        "somethingNew": {"nested": [1]},
        "status": {"code": "STATUS_CODE_ERROR"},
        "attributes": [
            {"key": "int", "value": {"intValue": 7}},
            {"key": "nan", "value": {"doubleValue": "NaN"}},
            {"key": "inf", "value": {"doubleValue": "-Infinity"}},
            {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": True}, {}]}}},
            {"key": "empty", "value": {}},
            {"key": "future", "value": {"decimalValue": "1.0"}},
            "nonsense",
        ],
    }
    (folder / "traces-0001.jsonl").write_text(_line(**value))
    _, (span,) = _records(tmp_path / "run")
    assert (span.trace_id, span.span_id) == ("abcdef0123456789abcdef0123456789", "abcdef0123456789")
    assert span.seconds == 1.5
    assert span.failed
    assert span.attributes["int"] == 7
    assert math.isnan(span.attributes["nan"])
    assert span.attributes["inf"] == -math.inf
    assert span.attributes["list"] == [True, None]
    assert span.attributes["empty"] is span.attributes["future"] is None


def test_nonsense_inside_of_valid_json_costs_no_other_record(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "host-rank0-00000000"
    folder.mkdir(parents=True)
    lines = [
        {"resourceSpans": [None, 3, {"resource": 4, "scopeSpans": [{"scope": [], "spans": "x"}]}]},
        {
            "resourceSpans": [
                {"scopeSpans": [{"spans": [{"name": None, "startTimeUnixNano": "soon", "attributes": 5}]}]}
            ]
        },
        {
            "resourceMetrics": [
                {"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [{"asInt": "3"}]}}]}]}
            ]
        },
    ]
    (folder / "traces-0001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, records = _records(tmp_path / "run")
    assert [type(record) for record in records] == [Span, Point]
    assert records[1].value == 3


def test_numbers_and_lists_that_no_writer_of_otlp_gives_are_taken_for_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "host-rank0-00000000"
    folder.mkdir(parents=True)
    huge = 10**400
    start = json.dumps({"name": "s", "startTimeUnixNano": huge, "endTimeUnixNano": str(huge)[:300]})
    (folder / "traces-0001.jsonl").write_text(f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{start}]}}]}}]}}\n')
    point = {"sum": huge, "count": -huge, "min": huge, "explicitBounds": 5, "bucketCounts": "x", "timeUnixNano": huge}
    metric = {"name": "m", "histogram": {"dataPoints": [point]}}
    line = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]})
    (folder / "metrics-0001.jsonl").write_text(line + "\n")
    (folder / "manifest.json").write_text(json.dumps({"started_unix_nano": huge, "ended_unix_nano": 5}))
    reader, (found, span) = _records(tmp_path / "run")
    assert (span.start, span.end, span.seconds) == (0, 0, 0)
    assert (found.count, found.time, found.bounds, found.counts) == (0, 0, [], [])
    assert math.isnan(found.value)
    assert (reader.processes[0].number("started_unix_nano"), reader.processes[0].number("ended_unix_nano")) == (None, 5)


def test_progress_tells_every_byte(run: Path) -> None:
    reader = Reader(find_run(run))
    seen: list[int] = []
    list(reader.records(seen.append))
    assert sum(seen) == reader.source.size == sum(file.stat().st_size for file in run.glob("*/*.jsonl"))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "no such folder; expected a folder written by otel-rl"),
        (lambda path: path.write_text("x"), "is a file; give the folder it lies in"),
        (lambda path: path.mkdir(), "is empty; expected"),
        (lambda path: (path / "src").mkdir(parents=True), "holds no telemetry; expected"),
        (lambda path: (path / "otel-rl" / "run").mkdir(parents=True), "give the folder in it: .*/data/otel-rl$"),
    ],
)
def test_unusable_input_says_what_to_give_instead(tmp_path: Path, prepare: Any, message: str) -> None:
    prepare(tmp_path / "data")
    with pytest.raises(UnusableInput, match=message):
        find_run(tmp_path / "data")


def test_files_that_may_not_be_read_are_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    source = find_run(run)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(UnusableInput, match=r"none of the files can be read: .*jsonl: Permission denied"):
        list(Reader(source).records())


def test_a_file_that_vanished_is_reported_and_the_rest_is_read(run: Path) -> None:
    source = find_run(run)
    source.files[0].path.unlink()
    reader = Reader(source)
    assert list(reader.records())
    assert len(reader.problems.errors) == 1
    assert "No such file" in reader.problems.errors[0]


@pytest.mark.parametrize(("kind", "is_server"), [(2, True), ("SPAN_KIND_SERVER", True), (3, False), (None, False)])
def test_a_span_of_a_server_is_known_as_one(tmp_path: Path, kind: int | str | None, is_server: bool) -> None:
    (tmp_path / "traces.jsonl").write_text(_line(name="tools/call add", kind=kind))
    _, [span] = _records(tmp_path)
    assert span.is_server is is_server
