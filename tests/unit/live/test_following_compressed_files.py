"""Whoever follows a run loses nothing and reads nothing twice when the store compresses the files that are full."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support import compressed_store
from unit.live.growing import split_into_small_lines
from unit.report.synthetic_run import GrpoRun

from otel_rl.store.reader import Reader, Span, find_run, following
from otel_rl.store.reader.following import FollowingReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from otel_rl.store.reader.records import Record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with several files of each stream."""
    run = GrpoRun(tmp_path_factory.mktemp("recorded"), steps=14, started=1_700_000_000 * 10**9).write()
    return compressed_store.rotate(split_into_small_lines(run, most=1))


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / recorded.name)


def _seen(records: Iterable[Record]) -> list[tuple[str, str, int]]:
    return [
        (record.process.key, record.name, record.end)
        if isinstance(record, Span)
        else (record.process.key, getattr(record, "metric", "") or getattr(record, "event", ""), record.time)
        for record in records
    ]


def _all(recorded: Path) -> Counter[tuple[str, str, int]]:
    return Counter(_seen(Reader(find_run(recorded)).records()))


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("read", [0, 1, 40, 10**6])
def test_a_file_that_is_compressed_goes_on_where_it_was(
    run: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, read: int, *, looks: bool
) -> None:
    # Without a look the next read finds the file under its other name.
    monkeypatch.setattr(following, "_LOOK", 0.0 if looks else 3600.0)
    monkeypatch.setattr(following, "_CHUNK", 2000)
    reader = FollowingReader(find_run(run))
    records = reader.appended()
    seen = [record for _, record in zip(range(read), records, strict=False)]
    compressed_store.compress_all(run)
    seen += reader.appended()
    assert Counter(_seen(seen)) == _all(recorded)
    assert not list(reader.appended())
    assert reader.left == 0
    assert not reader.problems.errors


def test_files_that_come_and_are_compressed_one_after_the_other_are_read_in_order(run: Path, recorded: Path) -> None:
    files = sorted(run.rglob("*.jsonl"), key=lambda path: path.name[-10:])
    contents = {path: path.read_bytes() for path in files}
    for path in files:
        path.unlink()
    reader, seen = None, []
    for path in files:
        path.write_bytes(contents[path][:700])
        reader = reader or FollowingReader(find_run(run))
        seen += _seen(reader.appended())
        path.write_bytes(contents[path])
        seen += _seen(reader.appended())
        former = path.with_name(f"{path.name[:-10]}{int(path.name[-10:-6]) - 1:04d}.jsonl")
        if former.exists():
            compressed_store.compress(former)
    assert reader is not None
    seen += _seen(reader.appended())
    assert Counter(seen) == _all(recorded)
    logs = [one for one in seen if one[1].startswith("rl.step")]
    assert logs == sorted(logs, key=lambda one: (one[0], one[2]))


def test_a_file_that_is_compressed_between_the_list_and_the_look_is_no_new_one(
    run: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = FollowingReader(find_run(run))
    seen = _seen(reader.appended())
    listed = following.look_again

    def look_and_compress(source) -> None:
        listed(source)
        compressed_store.compress_all(run)

    monkeypatch.setattr(following, "look_again", look_and_compress)
    seen += _seen(reader.appended())
    monkeypatch.setattr(following, "look_again", listed)
    seen += _seen(reader.appended())
    assert Counter(seen) == _all(recorded)


def test_spans_are_found_again_in_a_file_that_was_compressed_after_it_was_read(run: Path) -> None:
    reader = FollowingReader(find_run(run))
    spans = [record for record in reader.appended() if isinstance(record, Span)]
    wanted = {spans[3].trace_id, spans[-1].trace_id}
    plain = Counter(_seen(reader.traces(wanted)))
    compressed_store.compress_all(run)
    assert Counter(_seen(reader.traces(wanted))) == plain
    list(reader.appended())
    assert Counter(_seen(reader.traces(wanted))) == plain


@pytest.mark.parametrize("missing", [200, 10**6])
def test_one_that_is_cut_off_is_read_as_far_as_it_can_be_and_said(run: Path, recorded: Path, missing: int) -> None:
    compressed_store.compress_all(run)
    path = min(run.glob("*/traces-0002.jsonl.gz"))
    path.write_bytes(path.read_bytes()[: max(path.stat().st_size - missing, 0)])
    reader = FollowingReader(find_run(run))
    seen = Counter(_seen(reader.appended()))
    every, rest = _all(recorded), Counter(_seen(Reader(find_run(run)).records()))
    assert seen == rest
    assert seen < every
    assert not list(reader.appended())
    assert reader.left == 0
    assert reader.problems.errors == [f"{path}: its compressed data is cut off; what is before that was read"]


def test_of_the_last_bytes_of_a_run_no_file_before_them_is_decompressed(run: Path, recorded: Path) -> None:
    for path in compressed_store.compress_all(run):
        if path.name.startswith("traces-0"):
            path.write_bytes(b"cannot be read" + path.read_bytes()[-4:])
    reader, plain = (FollowingReader(find_run(folder), newest=1000) for folder in (run, recorded))
    assert Counter(_seen(reader.appended())) == Counter(_seen(plain.appended()))
    assert (reader.left, reader.problems.errors) == (0, [])
