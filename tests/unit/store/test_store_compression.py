"""Files of the store that are full are compressed: within the bound, whole or not at all, and on no other thread."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.store.reader.lines import raw_lines
from otel_rl.store.reader.locate import find_run
from otel_rl.store.writer import rotating_file
from otel_rl.store.writer.file_store import SHARES, FileStore
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

LINE = b'{"resourceLogs":[],"number":%06d}'


@pytest.fixture(autouse=True)
def no_drops() -> Iterator[None]:
    drops.reset()
    yield
    drops.reset()


def make(root: Path, file_limit: int = 3600, total_limit: int = 10**6) -> FileStore:
    return FileStore(
        str(root),
        lambda: "run/process",
        lambda: {"run_id": "run"},
        file_limit=file_limit,
        total_limit=total_limit,
        warn=lambda _: None,
    )


def write(store: FileStore, numbers: range) -> None:
    for number in numbers:
        assert store.write("logs", LINE % number, 1)


def compress(store: FileStore) -> None:
    while store.compress():
        pass


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "run/process").iterdir() if path.name != "manifest.json")


def lines(root: Path) -> list[bytes]:
    """All lines, as readers find them."""
    files = find_run(root).files
    return [line.rstrip() for line in chain.from_iterable(raw_lines(file.path) for file in files)]


def test_full_files_are_compressed_and_the_one_that_is_written_is_not(tmp_path: Path) -> None:
    store = make(tmp_path)
    write(store, range(250))
    before = (tmp_path / "run/process/logs-0001.jsonl").stat()
    compress(store)

    assert names(tmp_path) == ["logs-0001.jsonl.gz", "logs-0002.jsonl.gz", "logs-0003.jsonl"]
    first = tmp_path / "run/process/logs-0001.jsonl.gz"
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert first.stat().st_mtime_ns == before.st_mtime_ns
    assert len(gzip.decompress(first.read_bytes())) == before.st_size
    assert lines(tmp_path) == [LINE % number for number in range(250)]
    write(store, range(250, 300))
    assert lines(tmp_path) == [LINE % number for number in range(300)]


def test_it_goes_slice_by_slice_while_lines_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 500)
    store = make(tmp_path)
    write(store, range(101))
    number = 100
    while store.compress():
        number += 1
        write(store, range(number, number + 1))
        assert lines(tmp_path) == [LINE % number for number in range(number + 1)]
    assert number > 105
    assert names(tmp_path) == ["logs-0001.jsonl.gz", "logs-0002.jsonl"]


def test_bound_is_for_compressed_sizes_so_that_many_times_as_much_stays(tmp_path: Path) -> None:
    total = 100_000
    for name, packs in (("plain", False), ("compressed", True)):
        store = make(tmp_path / name, total_limit=total)
        for first in range(0, 20_000, 50):
            write(store, range(first, first + 50))
            if packs:
                compress(store)
        found = list((tmp_path / name / "run/process").glob("logs-*"))
        assert sum(path.stat().st_size for path in found) <= SHARES["logs"] * total
    plain, compressed = (lines(tmp_path / name) for name in ("plain", "compressed"))
    assert compressed[-1] == plain[-1] == LINE % 19_999
    assert compressed == [LINE % number for number in range(20_000 - len(compressed), 20_000)]
    assert len(compressed) > 5 * len(plain)
    assert drops.snapshot() == {("logs", "store_full"): 40_000 - len(plain) - len(compressed)}


def test_what_is_being_compressed_counts_and_is_given_up_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 1000)
    store = make(tmp_path, total_limit=20_000)
    for number in range(1000):
        write(store, range(number, number + 1))
        if number % 20 == 0:
            store.compress()
        used = sum(path.stat().st_size for path in (tmp_path / "run/process").iterdir() if "logs" in path.name)
        assert used <= SHARES["logs"] * 20_000
    assert len([name for name in names(tmp_path) if name.startswith(".")]) <= 1
    found = lines(tmp_path)
    assert found == [LINE % number for number in range(1000 - len(found), 1000)]


@pytest.mark.parametrize("call", ["write", "utime"])
def test_a_file_that_cannot_be_compressed_stays_and_nothing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = make(tmp_path)
    write(store, range(250))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rotating_file.os, call, refuse)
    compress(store)
    monkeypatch.undo()
    compress(store)
    assert names(tmp_path) == ["logs-0001.jsonl", "logs-0002.jsonl", "logs-0003.jsonl"]
    assert lines(tmp_path) == [LINE % number for number in range(250)]
    assert drops.snapshot() == {}


def test_compressing_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path)
    write(store, range(250))
    waits: list[str] = []
    for call in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, call, lambda *_, call=call: waits.append(call))
    compress(store)
    assert names(tmp_path) == ["logs-0001.jsonl.gz", "logs-0002.jsonl.gz", "logs-0003.jsonl"]
    assert waits == []


def test_on_a_disk_that_is_nearly_full_nothing_is_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path)
    write(store, range(250))
    monkeypatch.setattr(rotating_file.os, "statvfs", lambda _: SimpleNamespace(f_bavail=2, f_frsize=1024))
    compress(store)
    assert [name for name in names(tmp_path) if ".gz" in name] == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("module", "call"), [(os, "write"), (os, "utime"), (rotating_file, "replace_file"), (rotating_file, "remove_file")]
)
def test_a_kill_at_any_call_leaves_each_line_once(tmp_path: Path, module: ModuleType, call: str, when: str) -> None:
    store = make(tmp_path)
    write(store, range(250))
    child = os.fork()
    if not child:
        real = getattr(module, call)

        def kill(*arguments: Any, **keywords: Any) -> None:
            if when == "after":
                real(*arguments, **keywords)
            os._exit(9)

        setattr(module, call, kill)
        compress(store)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert lines(tmp_path) == [LINE % number for number in range(250)]


def test_files_that_somebody_removed_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 1000)
    store = make(tmp_path)
    write(store, range(250))
    assert store.compress()
    (tmp_path / "run/process/.logs-0001.jsonl.gz.part").unlink()
    (tmp_path / "run/process/logs-0002.jsonl").unlink()
    compress(store)
    assert names(tmp_path) == ["logs-0001.jsonl", "logs-0003.jsonl"]


def test_a_child_of_a_fork_leaves_the_files_of_its_parent_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 1000)
    store = make(tmp_path)
    write(store, range(250))
    assert store.compress()
    child = os.fork()
    if not child:
        store.after_fork_in_child()
        store.close()
        os._exit(int(store.compress()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ".logs-0001.jsonl.gz.part" in names(tmp_path)
    compress(store)
    assert "logs-0001.jsonl.gz" in names(tmp_path)
    assert lines(tmp_path) == [LINE % number for number in range(250)]


def test_a_program_may_close_all_descriptors_between_two_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 1000)
    store = make(tmp_path)
    write(store, range(250))
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert store.compress()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_descriptor_that_is_the_programs_by_then_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path)
    write(store, range(250))
    taken: list[int] = []

    write_all = os.write

    def close_and_open(number: int, data: bytes) -> int:
        # As a program that becomes a daemon while we write.
        written = write_all(number, data)
        os.close(number)
        taken.append(os.open(tmp_path / f"of the program {len(taken)}", os.O_WRONLY | os.O_CREAT))
        return written

    monkeypatch.setattr(rotating_file.os, "write", close_and_open)
    compress(store)
    monkeypatch.undo()
    assert len(taken) > 1
    for number in taken:
        os.close(number)
    assert lines(tmp_path) == [LINE % number for number in range(250)]


def test_the_end_leaves_what_is_not_compressed_yet_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotating_file, "_SLICE", 1000)
    store = make(tmp_path)
    write(store, range(250))
    assert store.compress()
    store.close()
    assert names(tmp_path) == ["logs-0001.jsonl", "logs-0002.jsonl", "logs-0003.jsonl"]
    write(store, range(250, 251))
    compress(store)
    assert names(tmp_path)[:3] == ["logs-0001.jsonl.gz", "logs-0002.jsonl.gz", "logs-0003.jsonl.gz"]
    assert lines(tmp_path) == [LINE % number for number in range(251)]
