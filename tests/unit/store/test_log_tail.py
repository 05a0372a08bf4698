"""Log records that are appended, of a collector whose files are moved when they are full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.report.synthetic_run import process

from otel_rl.store.reader import find_run
from otel_rl.store.reader.log_tail import LogTail, Wanted

if TYPE_CHECKING:
    from pathlib import Path


def _line(folder: Path, event: str) -> str:
    writer = process(folder, 0, world_size=1, started=1_700_000_000 * 10**9, **{"rl.run.id": "run"})
    writer.event(event, 1.0, "said")
    (file,) = writer.write().glob("**/logs-*.jsonl")
    return file.read_text().splitlines(keepends=True)[-1]


def test_a_file_that_a_collector_moves_is_not_printed_again_and_its_rest_and_successor_are(tmp_path: Path) -> None:
    output = tmp_path / "collected"
    output.mkdir()
    file = output / "logs.jsonl"
    file.write_text(_line(tmp_path / "one", "first") + _line(tmp_path / "two", "second"))
    tail = LogTail(find_run(output), Wanted())
    assert [log.event for log in tail.last(9)] == ["first", "second"]
    with file.open("a") as stream:
        stream.write(_line(tmp_path / "three", "third"))
    file.rename(output / "logs-2026-11-27T07-00-00.000.jsonl")
    file.write_text(_line(tmp_path / "four", "fourth"))
    assert sorted(log.event for log in tail.appended()) == ["fourth", "third"]
    assert tail.appended() == []
