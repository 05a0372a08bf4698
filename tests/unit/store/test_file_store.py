"""The file store: whole lines, bounded, rotated, and every drop counted."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from otel_rl.store.writer import manifest
from otel_rl.store.writer.file_store import FileStore
from otel_rl.telemetry import drops


@pytest.fixture(autouse=True)
def no_drops():
    drops.reset()
    yield
    drops.reset()


def make(root, warnings=None, file_limit=10**6, total_limit=10**6):
    return FileStore(
        str(root),
        lambda: "run/process",
        lambda: {"pid": 1},
        file_limit=file_limit,
        total_limit=total_limit,
        warn=(warnings if warnings is not None else []).append,
    )


def test_nothing_is_created_before_the_first_line(tmp_path):
    make(tmp_path / "data")

    assert not (tmp_path / "data").exists()


def test_lines_are_on_disk_at_once_and_in_order(tmp_path):
    store = make(tmp_path)
    for number in range(3):
        assert store.write("traces", b'{"n":%d}' % number, 1)

    lines = (tmp_path / "run/process/traces-0001.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [0, 1, 2]


def test_file_is_followed_by_the_next_before_it_exceeds_its_limit(tmp_path):
    store = make(tmp_path, file_limit=25)
    for _ in range(4):
        store.write("logs", b"0123456789", 1)

    files = sorted((tmp_path / "run/process").glob("logs-*.jsonl"))
    assert [file.name for file in files] == ["logs-0001.jsonl", "logs-0002.jsonl"]
    assert all(file.stat().st_size == 22 for file in files)


def test_line_longer_than_a_file_gets_a_file_of_its_own(tmp_path):
    store = make(tmp_path, file_limit=5)
    assert store.write("logs", b"0123456789", 1)
    assert store.write("logs", b"1", 1)

    assert len(list((tmp_path / "run/process").glob("logs-*.jsonl"))) == 2


def read(root, stream):
    """Lines of a stream, in the order written."""
    files = sorted((root / "run/process").glob(f"{stream}-0*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines()]


def test_full_stream_loses_its_oldest_counts_it_and_says_so_once(tmp_path):
    warnings: list[str] = []
    store = make(tmp_path, warnings, total_limit=1000)
    lines = [b"%09d" % number for number in range(100)]
    results = [store.write("traces", line, 3) for line in lines]

    kept = read(tmp_path, "traces")
    assert all(results)
    assert 0 < len(kept) < 100
    assert kept == lines[-len(kept) :]
    assert sum(len(line) + 1 for line in kept) <= 400
    assert drops.snapshot() == {("traces", "store_full"): 3 * (100 - len(kept))}
    assert len(warnings) == 1


def test_full_stream_takes_nothing_from_another_one(tmp_path):
    store = make(tmp_path, total_limit=1000)
    store.write("metrics", b"points", 1)
    store.write("traces-errors", b"failed", 1)
    for number in range(100):
        store.write("traces", b"%09d" % number, 1)

    assert read(tmp_path, "metrics") == [b"points"]
    assert read(tmp_path, "traces-errors") == [b"failed"]


def test_line_longer_than_its_stream_is_dropped_and_removes_nothing(tmp_path):
    store = make(tmp_path, total_limit=1000)
    store.write("logs", b"short", 1)

    assert not store.write("logs", b"x" * 600, 7)
    assert read(tmp_path, "logs") == [b"short"]
    assert drops.snapshot() == {("logs", "store_full"): 7}


def test_limit_on_the_size_of_one_file_begins_the_next(tmp_path, monkeypatch):
    store = make(tmp_path)
    real_write = os.write

    def write(descriptor, data):
        if os.fstat(descriptor).st_size + len(data) > 12:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return real_write(descriptor, data)

    monkeypatch.setattr("otel_rl.store.writer.rotating_file.os.write", write)
    store.directory = tmp_path / "run/process"
    store.directory.mkdir(parents=True)
    assert [store.write("logs", b"0123456789", 1) for _ in range(3)] == [True, True, True]
    assert len(list(store.directory.glob("logs-*.jsonl"))) == 3


def test_half_a_line_is_taken_back_when_the_disk_is_full(tmp_path, monkeypatch):
    warnings: list[str] = []
    store = make(tmp_path, warnings)
    store.write("traces", b"whole", 1)
    real_write = os.write
    room = [4]

    def write(descriptor, data):
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    assert not store.write("traces", b"does not fit", 5)
    monkeypatch.undo()
    assert store.write("traces", b"fits again", 1)

    assert (tmp_path / "run/process/traces-0001.jsonl").read_bytes() == b"whole\nfits again\n"
    assert drops.snapshot() == {("traces", "disk_full"): 5}
    assert "No space left" in warnings[0]


def test_root_that_is_a_file_is_reported_and_left_alone(tmp_path):
    (tmp_path / "taken").write_text("mine")
    warnings: list[str] = []
    store = make(tmp_path / "taken", warnings)

    assert not store.write("metrics", b"x", 2)
    assert not store.write("metrics", b"x", 2)
    assert drops.snapshot() == {("metrics", "store_unwritable"): 4}
    assert len(warnings) == 1


def open_files(root):
    """Files below ``root`` that this process has open."""
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return {os.path.relpath(link, root) for link in links if link.startswith(f"{root}/")}


def test_forked_child_begins_a_directory_of_its_own_and_closes_the_parents_files_with_its_first_write(tmp_path):
    names = iter(["run/parent", "run/child"])
    store = FileStore(str(tmp_path), lambda: next(names), dict, file_limit=10**6, total_limit=10**6, warn=pytest.fail)
    store.write("traces", b"parent", 1)
    store.after_fork_in_child()
    assert open_files(tmp_path) == {"run/parent/traces-0001.jsonl"}
    store.write("traces", b"child", 1)

    assert open_files(tmp_path) == {"run/child/traces-0001.jsonl"}
    assert (tmp_path / "run/parent/traces-0001.jsonl").read_bytes() == b"parent\n"
    assert (tmp_path / "run/child/traces-0001.jsonl").read_bytes() == b"child\n"


def test_manifest_is_written_again_only_when_it_is_stale(tmp_path):
    written: list[int] = []
    store = FileStore(
        str(tmp_path),
        lambda: "run/process",
        lambda: written.append(1) or {},
        file_limit=10**6,
        total_limit=10**6,
        warn=pytest.fail,
    )
    store.mark_stale()
    store.refresh()
    assert written == []
    store.write("traces", b"x", 1)
    assert written == [1]
    store.refresh()
    store.mark_stale()
    store.refresh()
    assert len(written) == 2


def test_manifest_is_replaced_in_one_step(tmp_path):
    manifest.write(tmp_path, {"pid": 1})
    before = (tmp_path / "manifest.json").stat().st_ino
    manifest.write(tmp_path, {"pid": 2})

    assert json.loads((tmp_path / "manifest.json").read_text()) == {"format": "otel-rl/1", "pid": 2}
    assert (tmp_path / "manifest.json").stat().st_ino != before
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_drops_are_nested_by_signal_in_the_manifest():
    assert manifest.dropped_by_signal({("traces", "b"): 1, ("traces", "a"): 2, ("logs", "a"): 3}) == {
        "traces": {"a": 2, "b": 1},
        "logs": {"a": 3},
    }


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_directory_that_somebody_takes_away_is_made_again_and_what_it_held_is_counted(tmp_path, how):
    warnings = []
    store = make(tmp_path / "data", warnings)
    for _ in range(3):
        assert store.write("traces", b"{}", 2)
    assert store.write("logs-errors", b"{}", 1)
    if how == "removed":
        shutil.rmtree(tmp_path / "data")
    else:
        (tmp_path / "data").rename(tmp_path / "elsewhere")
    for _ in range(2):
        assert store.write("traces", b'{"n":1}', 1)

    directory = tmp_path / "data/run/process"
    assert (directory / "traces-0001.jsonl").read_text() == '{"n":1}\n' * 2
    assert (directory / manifest.NAME).exists()
    assert drops.snapshot() == {("traces", "store_removed"): 6, ("logs", "store_removed"): 1}
    assert len(warnings) == 1


def test_file_that_somebody_removes_is_followed_by_the_next_one(tmp_path):
    store = make(tmp_path)
    assert store.write("traces", b"{}", 2)
    (tmp_path / "run/process/traces-0001.jsonl").unlink()
    assert store.write("traces", b"{}", 1)

    assert (tmp_path / "run/process/traces-0002.jsonl").read_text() == "{}\n"
    assert drops.snapshot() == {("traces", "store_removed"): 2}


def test_directory_that_was_taken_away_has_a_manifest_at_the_end(tmp_path):
    store = make(tmp_path / "data")
    assert store.write("traces", b"{}", 2)
    shutil.rmtree(tmp_path / "data")
    store.mark_stale()
    store.refresh()

    assert (tmp_path / "data/run/process" / manifest.NAME).exists()


def moving(root):
    """A store whose process learns its rank."""
    places = ["run/pid1"]
    return places, FileStore(
        str(root),
        lambda: places[-1],
        lambda: {"place": places[-1]},
        file_limit=10**6,
        total_limit=10**6,
        warn=[].append,
    )


def test_what_is_shown_before_the_first_line_is_replaced_by_it(tmp_path):
    store = make(tmp_path)
    store.show(b"shown")
    folder = tmp_path / "run/process"
    assert [path.read_text() for path in folder.glob("logs-*.jsonl")] == ["shown\n"]
    assert (folder / "manifest.json").exists()

    store.write("logs", b"first", 1)
    assert [path.read_text() for path in folder.glob("logs-*.jsonl")] == ["first\n"]


@pytest.mark.parametrize("place", ["run/rank0", "another/rank0"])
def test_a_process_that_learns_who_it_is_has_one_directory_under_its_new_name(tmp_path, place):
    places, store = moving(tmp_path)
    store.show(b"shown")
    places.append(place)
    store.mark_stale()
    store.refresh()
    assert [path.name for path in (tmp_path / place).glob("logs-*.jsonl")] == ["logs-shown-0000.jsonl"]
    assert json.loads((tmp_path / place / "manifest.json").read_text())["place"] == place

    store.write("logs", b"first", 1)
    assert [path.parent for path in tmp_path.glob("*/*/manifest.json")] == [tmp_path / place]
    assert {path.name for path in tmp_path.iterdir()} == {place.partition("/")[0]}


def test_what_was_shown_leaves_nothing_where_no_line_follows(tmp_path):
    store = make(tmp_path / "data")
    store.show(b"shown")
    store.withdraw()
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_was_there_before_stays_with_what_is_in_it(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes").touch()
    store = make(tmp_path)
    store.show(b"shown")
    store.withdraw()
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "notes"]


def test_a_directory_with_lines_is_not_withdrawn(tmp_path):
    store = make(tmp_path)
    store.show(b"shown")
    store.write("logs", b"first", 1)
    store.withdraw()
    assert (tmp_path / "run/process/logs-0001.jsonl").exists()


def test_what_cannot_be_shown_is_no_complaint_before_the_first_line(tmp_path):
    (tmp_path / "file").touch()
    warnings = []
    store = make(tmp_path / "file/data", warnings)
    store.show(b"shown")
    assert warnings == []
    assert not store.write("logs", b"first", 1)
    assert len(warnings) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_that_becomes_another_user_after_it_was_shown_gets_a_folder_that_it_may_write():
    # The folders of pytest are those of its user.
    tmp_path = Path(tempfile.mkdtemp())
    tmp_path.chmod(0o777)
    store = make(tmp_path)
    store.show(b"shown")
    os.seteuid(65534)
    try:
        assert store.write("logs", b"first", 1)
    finally:
        os.seteuid(0)
    assert (tmp_path / "run-uid65534/process/logs-0001.jsonl").read_text() == "first\n"
    assert (tmp_path / "run-uid65534/process/manifest.json").exists()
    shutil.rmtree(tmp_path)
