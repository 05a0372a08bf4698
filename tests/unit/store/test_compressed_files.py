"""Files that the store has compressed are read as those before: in order, once, and as far as they can be."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import sys
import zlib
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import compressed_store
from unit.live.growing import split_into_small_lines
from unit.report.synthetic_run import GrpoRun

from otel_rl.live.run_index import RunIndex
from otel_rl.replay.batches import batches
from otel_rl.report.core.sentences import unreadable
from otel_rl.store.reader import Log, Reader, Span, compressed, find_run, tails
from otel_rl.store.reader.compressed import opened, size
from otel_rl.store.reader.lines import raw_lines
from otel_rl.store.reader.log_tail import LogTail, Wanted
from otel_rl.store.reader.process_folders import look_into
from otel_rl.store.reader.run_list import list_runs
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otel_rl.store.reader.records import Record

STARTED = 1_700_000_000 * 10**9


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with several files of each stream."""
    run = GrpoRun(tmp_path_factory.mktemp("recorded"), steps=14, started=STARTED).write()
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


def _logs(logs: Iterable[Log]) -> list[tuple[str, int]]:
    return [(log.event, log.time) for log in logs]


def test_records_come_in_the_order_of_the_files_as_they_were(run: Path, recorded: Path) -> None:
    assert compressed_store.compress_all(run)
    source = find_run(run)
    assert [file.path.name.removesuffix(".gz") for file in source.files] == [
        file.path.name for file in find_run(recorded).files
    ]
    assert source.size == find_run(recorded).size
    reader = Reader(source)
    assert _seen(reader.records()) == _seen(Reader(find_run(recorded)).records())
    assert reader.problems == Unreadable()


def test_chosen_traces_and_events_are_found_in_them(run: Path, recorded: Path) -> None:
    plain = Reader(find_run(recorded))
    spans = [record for record in plain.records() if isinstance(record, Span)]
    wanted = {spans[0].trace_id, spans[len(spans) // 2].trace_id}
    compressed_store.compress_all(run)
    reader = Reader(find_run(run))
    assert _seen(reader.traces(wanted)) == _seen(plain.traces(wanted)) != []
    assert _seen(reader.events("rl.step")) == _seen(plain.events("rl.step")) != []


def test_a_file_that_lies_beside_its_compressed_form_counts_once(run: Path, recorded: Path) -> None:
    for path in run.rglob("*-0002.jsonl"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert _seen(Reader(find_run(run)).records()) == _seen(Reader(find_run(recorded)).records())


def test_a_file_that_is_compressed_after_it_was_found_is_read(run: Path, recorded: Path) -> None:
    source = find_run(run)
    reader = Reader(source)
    first = next(records := reader.records())
    compressed_store.compress_all(run)
    assert _seen([first, *records]) == _seen(Reader(find_run(recorded)).records())
    assert reader.problems == Unreadable()
    assert source.size == find_run(recorded).size


def test_files_that_are_compressed_while_their_folder_is_listed_are_found(
    run: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterable[Path]:
        names = list(listed(folder))
        # Its files are looked at next.
        if sys._getframe(1).f_code.co_name == "_signal_files" and folder != run:
            compressed_store.compress_all(folder)
        return iter(names)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    source = find_run(run)
    monkeypatch.undo()
    assert any(file.path.name.endswith(".gz") for file in source.files)
    assert _seen(Reader(source).records()) == _seen(Reader(find_run(recorded)).records())


def _compressed_once_it_was_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``path`` be compressed right after somebody has asked whether it is there."""
    exists = Path.exists

    def seen(asked: Path, **options: Any) -> bool:
        found = exists(asked, **options)
        if asked == path and found:
            compressed_store.compress(path)
        return found

    monkeypatch.setattr(Path, "exists", seen)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: b"".join(raw_lines(path)),
        lambda path: b"".join([*tails.lines_from_end(path)][::-1]),
        size,
        tails.last_moment,
        tails.end_of_lines,
    ],
    ids=["lines", "lines from the end", "size", "last moment", "end of lines"],
)
def test_a_file_that_is_compressed_while_it_is_opened_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any]
) -> None:
    path = tmp_path / "logs-0001.jsonl"
    path.write_bytes(b"".join(b'{"timeUnixNano":"%d"}\n' % (STARTED + number) for number in range(500)))
    before = read(path)
    assert before
    _compressed_once_it_was_seen(path, monkeypatch)
    assert read(path) == before
    assert not path.exists()


def test_a_file_that_another_machine_compresses_is_read_on(
    run: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = min(run.glob("*/logs-0001.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    whole = compressed.opened

    class Stale(BytesIO):
        """A file of a server that has it no more, as NFS answers."""

        def readline(self, *_: Any) -> bytes:
            if self.tell():
                compressed_store.compress(file)
                monkeypatch.setattr(compressed, "opened", whole)
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return super().readline()

    monkeypatch.setattr(compressed, "opened", lambda path: Stale(path.read_bytes()))
    assert list(raw_lines(file)) == lines


@pytest.mark.parametrize("kept", [0, 7, 0.9, 0.99])
def test_of_one_that_is_cut_off_the_begin_is_read_and_the_rest_is_said(run: Path, recorded: Path, kept: float) -> None:
    path = compressed_store.compress(min(run.glob("*/logs-0002.jsonl")))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept if kept > 1 else kept * len(content))])
    number = 0 if kept in (0, 7) else _lines_of(path)
    reader = Reader(find_run(run))
    read, others = Counter(_seen(reader.records())), Counter(_without(recorded, path))
    assert others <= read
    assert read < Counter(_seen(Reader(find_run(recorded)).records()))
    assert (read > others) == (0 < kept < 1)
    why = f"its compressed data is cut off; what is before that was read ({number} line{'' if number == 1 else 's'})"
    assert reader.problems.errors == [f"{path}: {why}"]
    assert unreadable(reader.problems) == (
        f"Not read: 1 file cannot be read whole ({path.parent.name}/{path.name}: {why})."
    )


def _lines_of(path: Path) -> int:
    """Return the number of whole lines that can be read of a compressed file."""
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(path.read_bytes()).count(b"\n")


def _without(recorded: Path, path: Path) -> list[tuple[str, str, int]]:
    """Return what is in the other files."""
    source = find_run(recorded)
    source.files = [
        file for file in source.files if (file.path.parent.name, file.path.name) != (path.parent.name, path.stem)
    ]
    return _seen(Reader(source).records())


def test_damaged_data_is_said(run: Path) -> None:
    path = compressed_store.compress(next(run.glob("*/metrics-0001.jsonl")))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 60] = b"\xff" * 60
    path.write_bytes(content)
    reader = Reader(find_run(run))
    assert len(_seen(reader.records())) > 100
    [error] = reader.problems.errors
    assert re.fullmatch(
        rf"{re.escape(str(path))}: its compressed data is damaged; what is before that was read \(\d+ lines?\)", error
    )


def test_files_come_in_the_order_of_their_numbers_whatever_the_number_of_digits_is(run: Path) -> None:
    folder = next(run.glob("*/logs-0001.jsonl")).parent
    for old, new in ((1, 9998), (2, 9999), (3, 10000), (4, 10001)):
        (folder / f"logs-{old:04d}.jsonl").rename(folder / f"logs-{new:04d}.jsonl")
    compressed_store.compress(folder / "logs-9999.jsonl")
    names = [file.path.name for file in find_run(folder).files if file.path.name.startswith("logs-1")]
    assert names == ["logs-10000.jsonl", "logs-10001.jsonl"]
    found = look_into(folder)
    assert found is not None
    assert found.files["logs"].name == "logs-10001.jsonl"


def test_the_end_of_a_compressed_file_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_rl.store.reader.compressed._BLOCK", 1000)
    lines = [b'{"timeUnixNano":"%d"}\n' % (STARTED + number) for number in range(500)]
    path = tmp_path / "logs-0001.jsonl"
    path.write_bytes(b"".join(lines))
    last = list(tails.lines_from_end(path, most=3000))
    packed = compressed_store.compress(path)
    # By its former name, too.
    for name in (path, packed):
        assert list(tails.lines_from_end(name)) == lines[::-1]
        assert list(tails.lines_from_end(name, most=3000)) == last
        assert list(tails.lines_from_end(name, end=len(lines[0]) * 2)) == lines[1::-1]
        assert tails.last_moment(name) == STARTED + 499
    assert size(path) == sum(map(len, lines))
    packed.write_bytes(packed.read_bytes()[:-20])
    found, whole = [], tails.lines_from_end(path)
    with pytest.raises(OSError, match="cut off"):
        found.extend(whole)
    assert lines[10] in found


def test_several_compressed_files_in_one_are_read_on(tmp_path: Path) -> None:
    path = tmp_path / "logs-0001.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    with opened(path) as stream:
        assert stream.read() == b"one\ntwo\n"
        assert (stream.seek(4), stream.readline()) == (4, b"two\n")
        assert (stream.seek(0), stream.readline()) == (0, b"one\n")


def test_the_log_goes_on_where_it_was_when_a_file_is_compressed(run: Path, recorded: Path) -> None:
    folder = next(run.glob("*rank0*/logs-0001.jsonl")).parent
    second = folder / "logs-0002.jsonl"
    whole = second.read_bytes().splitlines(keepends=True)
    later = [folder / "logs-0003.jsonl", folder / "logs-0004.jsonl"]
    contents = [path.read_bytes() for path in later]
    for path in later:
        path.unlink()
    second.write_bytes(b"".join(whole[:2]))
    tail = LogTail(find_run(run), Wanted(rank=0, events=True))
    seen = _logs(tail.last(10**6))
    second.write_bytes(b"".join(whole))
    for path, content in zip(later, contents, strict=True):
        path.write_bytes(content)
    compressed_store.compress_all(run)
    seen += _logs(tail.appended())
    assert tail.appended() == []
    compressed_store.compress(later[-1])
    assert tail.appended() == []
    every = LogTail(find_run(recorded), Wanted(rank=0, events=True))
    assert sorted(seen) == sorted(_logs(every.all()))
    again = LogTail(find_run(run), Wanted(rank=0, events=True))
    assert sorted(_logs(again.last(10**6))) == sorted(seen)
    assert _logs(again.last(5)) == _logs(every.last(5))


@pytest.mark.parametrize("is_late", [False, True], ids=["before it is looked at", "while it is looked at"])
def test_a_file_that_is_compressed_after_it_was_found_is_in_the_last_records_and_not_appended(
    run: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    source = find_run(run)
    if is_late:
        for path in run.glob("*/logs-0001.jsonl"):
            _compressed_once_it_was_seen(path, monkeypatch)
    else:
        compressed_store.compress_all(run)
    tail = LogTail(source, Wanted(events=True))
    every = LogTail(find_run(recorded), Wanted(events=True))
    assert _logs(tail.last(10**6)) == _logs(every.last(10**6))
    assert tail.appended() == []
    assert tail.problems == Unreadable()


def test_lists_of_runs_say_the_same_of_them(run: Path, recorded: Path) -> None:
    plain = list_runs(run)[0]
    for path in sorted(run.rglob("*-*.jsonl")):
        # The last ones, too: as if a copy had been compressed.
        compressed_store.compress(path)
    row = list_runs(run)[0]
    assert (row.state, row.step, row.steps, row.reward) == (plain.state, plain.step, plain.steps, plain.reward)
    assert (row.last_sign, row.severity) == (plain.last_sign, plain.severity)
    assert [listed.name for listed in RunIndex(run.parent).runs()] == [run.name]
    for path in run.glob("*/manifest.json"):
        path.unlink()
    assert [listed.name for listed in RunIndex(run.parent).runs()] == [run.name]
    assert _seen(Reader(find_run(run)).records())


def test_what_was_sent_of_a_file_is_not_sent_again_when_it_is_compressed(run: Path) -> None:
    path = next(run.glob("*/traces-0001.jsonl"))
    every = list(batches(path, "file", "traces", {}, Unreadable()))
    line = path.read_bytes().index(b"\n") + 1
    packed = compressed_store.compress(path)
    problems = Unreadable()
    for name in (path, packed):
        (rest,) = batches(name, "file", "traces", {0: line}, problems)
        assert (rest.begin, rest.end) == (line, every[-1].end)
    assert list(batches(path, "file", "traces", {each.begin: each.end for each in every}, problems)) == []
    packed.write_bytes(packed.read_bytes()[:-30])
    sent = batches(path, "file", "traces", {}, problems)
    assert next(sent).items
    with pytest.raises(OSError, match="cut off"):
        list(sent)
