"""The file store: whole lines, bounded, rotated, and every drop counted."""

from __future__ import annotations

import errno
import json
import os

import pytest

from otel_rl.offline.store import manifest
from otel_rl.offline.store.file_store import FileStore
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


def test_bound_of_all_files_drops_counts_and_says_so_once(tmp_path):
    warnings: list[str] = []
    store = make(tmp_path, warnings, total_limit=30)
    results = [store.write(signal, b"0123456789", 3) for signal in ("traces", "logs", "traces", "logs")]

    assert results == [True, True, False, False]
    assert drops.snapshot() == {("traces", "store_full"): 3, ("logs", "store_full"): 3}
    assert len(warnings) == 1


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


def test_reset_begins_a_directory_of_its_own(tmp_path):
    names = iter(["run/parent", "run/child"])
    store = FileStore(str(tmp_path), lambda: next(names), dict, file_limit=10**6, total_limit=10**6, warn=pytest.fail)
    store.write("traces", b"parent", 1)
    store.reset()
    store.write("traces", b"child", 1)

    assert (tmp_path / "run/parent/traces-0001.jsonl").read_bytes() == b"parent\n"
    assert (tmp_path / "run/child/traces-0001.jsonl").read_bytes() == b"child\n"


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
