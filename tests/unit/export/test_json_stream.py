"""Objects of an array come one at a time, whatever pieces the file is read in."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from otel_rl.export import json_stream
from otel_rl.export.json_stream import Cut, ObjectsOf

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = [
    {"name": 'a "quoted" ] } name', "ts": 1.125, "args": {"deep": [1, {"x": None}]}},
    {"name": "\u00e9"},
    {"n": 3},
]
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "t"}, indent=2)


@pytest.mark.parametrize("piece", [1, 2, 7, 64, 1 << 20])
def test_the_size_of_the_pieces_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(json_stream, "_PIECE", piece)
    file = tmp_path / "t.json"
    file.write_text(TEXT)
    objects = ObjectsOf(file, "traceEvents")
    assert list(objects) == EVENTS
    assert "schemaVersion" in objects.head


def test_what_stands_behind_the_array_is_known_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TEXT)
    objects = ObjectsOf(tmp_path / "t.json", "traceEvents")
    list(objects)
    assert '"traceName": "t"' in objects.tail


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"traceEvents": [{"ts": 4891737797373.501}]}')
    [event] = ObjectsOf(tmp_path / "t.json", "traceEvents")
    assert event["ts"] == Decimal("4891737797373.501")


@pytest.mark.parametrize("text", [TEXT[: TEXT.index("\\u00e9")], "", "[]", '{"traceEvents": [{"a": 1} nonsense'])
def test_a_file_that_is_cut_off_gives_what_is_before_and_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    read = []
    with pytest.raises(Cut):
        read.extend(ObjectsOf(tmp_path / "t.json", "traceEvents"))


def test_a_compressed_file_that_is_cut_off_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    with pytest.raises(Cut):
        list(ObjectsOf(tmp_path / "t.json.gz", "traceEvents"))


def test_an_object_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LONGEST", 1000)
    monkeypatch.setattr(json_stream, "_PIECE", 100)
    (tmp_path / "t.json").write_text('{"traceEvents": [{"a": 1}, {"b": "' + "x" * 100_000)
    read = iter(ObjectsOf(tmp_path / "t.json", "traceEvents"))
    assert next(read) == {"a": 1}
    with pytest.raises(Cut):
        next(read)
