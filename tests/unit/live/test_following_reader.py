"""What is appended to a run's files is read once, in order, whatever happens to the files."""

from __future__ import annotations

import json
import shutil
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from unit.live.growing import GrowingRun, split_into_small_lines
from unit.report.synthetic_run import GrpoRun

from otel_rl.semconv import events
from otel_rl.semconv.attributes import RL_LOOP_ITERATION
from otel_rl.store.reader import Log, Reader, Span, find_run, following
from otel_rl.store.reader.following import FollowingReader
from otel_rl.store.reader.locate import look_again
from otel_rl.store.writer import manifest
from otel_rl.store.writer.file_store import FileStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return split_into_small_lines(GrpoRun(tmp_path / "recorded", steps=14, started=1_700_000_000 * 10**9).write())


def _seen(records) -> list[tuple[str, str, int]]:
    """Return of each record its process, what it is, and when."""
    return [
        (record.process.key, record.name, record.end)
        if isinstance(record, Span)
        else (record.process.key, getattr(record, "metric", "") or getattr(record, "event", ""), record.time)
        for record in records
    ]


def _is_logged_step(record) -> bool:
    return isinstance(record, Log) and record.event == events.RL_STEP.name


def _put_in_front(file: Path, event: str) -> None:
    """Put a record of the run itself, of no step, before all others."""
    lines = file.read_text().splitlines(keepends=True)
    first = json.loads(lines[0])
    records = first["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    records[:] = [{**records[0], "eventName": event, "attributes": []}]
    file.write_text("".join([f"{json.dumps(first)}\n", *lines]))


def test_all_that_is_appended_piece_by_piece_is_read_once(run, tmp_path):
    growing = GrowingRun(run, tmp_path / "grown")
    reader, seen = None, []
    for _ in growing.pieces(9):
        reader = reader or FollowingReader(find_run(growing.folder))
        seen += _seen(reader.appended())
    assert sorted(seen) == sorted(_seen(Reader(find_run(run)).records()))
    assert not reader.problems.cut_off
    assert not reader.problems.unreadable


def test_whoever_stops_in_between_goes_on_there(run):
    reader = FollowingReader(find_run(run))
    first = next(reader.appended())
    assert _seen([first, *reader.appended()]) == _seen(Reader(find_run(run)).records())


def test_half_a_line_counts_as_cut_off_only_where_its_file_does_not_grow(run, monkeypatch):
    with next(run.glob("*/logs-0*.jsonl")).open("a") as stream:
        stream.write('{"resourceLogs":[{"scope')
    reader = FollowingReader(find_run(run))
    assert list(reader.appended())
    reader.count_cut_off()
    assert reader.problems.cut_off == 0
    monkeypatch.setattr(following, "_STILL", -1)
    for _ in range(2):
        reader.count_cut_off()
        assert reader.problems.cut_off == 1
    with next(run.glob("*/logs-0*.jsonl")).open("a") as stream:
        stream.write('Logs":[]}]}\n')
    list(reader.appended())
    reader.count_cut_off()
    assert reader.problems.cut_off == 0


def test_a_process_that_comes_later_is_read_and_its_manifest_is_brought_up_to_date(run):
    folder = sorted(child for child in run.iterdir() if child.is_dir())[1]
    aside = folder.rename(run.parent / "aside")
    reader = FollowingReader(find_run(run))
    assert {record.process.rank for record in reader.appended()} == {0}
    aside.rename(folder)
    assert {record.process.rank for record in reader.appended()} == {1}
    assert [process.rank for process in reader.processes] == [0, 1]
    manifest = folder / "manifest.json"
    manifest.with_suffix(".new").write_text(json.dumps({**json.loads(manifest.read_text()), "clean_exit": False}))
    manifest.with_suffix(".new").rename(manifest)
    list(reader.appended())
    assert [process.clean_exit for process in reader.processes] == [True, False]


def _collector_output(run: Path, folder: Path) -> Path:
    folder.mkdir()
    for signal in ("traces", "metrics", "logs"):
        text = "".join(file.read_text() for file in sorted(run.glob(f"*/{signal}-*.jsonl")))
        (folder / f"{signal}.jsonl").write_text(text)
    return folder


def test_a_file_that_a_collector_rotates_is_read_on_and_its_successor_too(run, tmp_path):
    output = _collector_output(run, tmp_path / "collected")
    file = output / "traces.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]))
    reader = FollowingReader(find_run(output))
    seen = _seen(reader.appended())
    with file.open("a") as stream:
        stream.write(lines[2])
    file.rename(output / "traces-2026-01-01T00-00-00.000.jsonl")
    file.write_text("".join(lines[3:]))
    seen += _seen(reader.appended())
    assert sorted(seen) == sorted(_seen(Reader(find_run(output)).records()))


def test_a_file_that_was_emptied_is_read_anew(run, tmp_path):
    output = _collector_output(run, tmp_path / "collected")
    reader = FollowingReader(find_run(output))
    list(reader.appended())
    lines = (output / "traces.jsonl").read_text().splitlines(keepends=True)
    (output / "traces.jsonl").write_text(lines[-1])
    assert {type(record) for record in reader.appended()} == {Span}


def test_files_and_folders_that_go_end_nothing(run):
    reader = FollowingReader(find_run(run))
    next(run.glob("*/traces-0*.jsonl")).unlink()
    assert list(reader.appended())
    shutil.rmtree(run)
    assert list(reader.appended()) == []
    assert reader.is_gone


def test_only_the_end_of_a_run_and_its_beginning_in_logs_can_be_read(run, monkeypatch):
    monkeypatch.setattr(following, "_BEGINNING", 1)
    for file in run.glob("*/logs-0001.jsonl"):
        _put_in_front(file, events.RL_RUN_START.name)
    whole = _seen(Reader(find_run(run)).records())
    reader = FollowingReader(find_run(run), newest=6000)
    seen = _seen(reader.appended())
    assert 0 < len(seen) < len(whole)
    assert set(seen) <= set(whole)
    first_logs = [one for one in whole if one[1] == events.RL_RUN_START.name]
    assert first_logs
    assert set(first_logs) <= set(seen)
    assert not reader.problems.unreadable


def test_of_the_beginning_of_a_long_run_no_step_is_read(run, monkeypatch):
    monkeypatch.setattr(following, "_BEGINNING", 2000)
    reader = FollowingReader(find_run(run), newest=6000)
    read = {record.attributes[RL_LOOP_ITERATION] for record in reader.appended() if _is_logged_step(record)}
    written = {
        record.attributes[RL_LOOP_ITERATION] for record in Reader(find_run(run)).records() if _is_logged_step(record)
    }
    assert read
    assert sorted(read) == sorted(written)[-len(read) :]
    assert len(read) < len(written)


def test_spans_of_chosen_traces_are_found_again(run):
    reader = FollowingReader(find_run(run))
    spans = [record for record in reader.appended() if isinstance(record, Span)]
    trace = spans[len(spans) // 2].trace_id
    assert _seen(reader.traces({trace})) == _seen(Reader(find_run(run)).traces({trace}))
    assert list(reader.traces({"0" * 32})) == []


def test_a_file_system_that_is_slow_to_look_at_does_not_keep_a_follower_from_reading(run, monkeypatch):
    look, looks = following.look_again, []

    def slow(source):
        looks.append(source)
        look(source)
        # As long as each call of the follower may take.
        clock.passed += 0.05

    clock = SimpleNamespace(passed=0.0)
    monkeypatch.setattr(following, "look_again", slow)
    monkeypatch.setattr(time, "monotonic", lambda: clock.passed)
    follower = FollowingReader(find_run(run))
    records = 0
    while True:
        until, before = time.monotonic() + 0.05, records
        for _ in follower.appended():
            records += 1
            clock.passed += 0.0001
            if time.monotonic() > until:
                break
        if records == before:
            break
    assert records == len(list(Reader(find_run(run)).records()))
    assert len(looks) < records / 4


def test_a_process_that_learns_its_rank_while_it_is_followed_stays_one(tmp_path):
    place = ["run/pid1"]
    store = FileStore(
        str(tmp_path),
        lambda: place[-1],
        lambda: {"format": manifest.FORMAT, "run_id": "run", "lifetime": ["boot", 1, 2, 3]},
        file_limit=10**6,
        total_limit=10**6,
        warn=[].append,
    )
    store.show(b"{}")
    source = find_run(tmp_path)
    assert [process.key for process in source.processes] == ["pid1"]
    place.append("run/rank0")
    store.write("logs", b"{}", 1)
    look_again(source)
    assert [process.key for process in source.processes] == ["rank0"]
