"""Files that are no dumps, or are meant to do harm: one line each, and the dumps of the other ranks are read."""

from __future__ import annotations

import json
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from support.torch_dumps import dump, entry, write

from otel_rl.ranks.postmortem import dump_files, examine
from otel_rl.ranks.postmortem.text import as_json, as_text

SOUND = pickle.dumps(dump([entry(1), entry(2)]), protocol=2)


class Harmful:
    """What a pickle can do."""

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return self.what


def _nested(depth: int) -> list[Any]:
    """Few lists that take 2 ** depth steps to go through."""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner, inner]
    return inner


def _nested_key() -> bytes:
    """A dictionary whose key takes time without end to hash."""
    twice = b"h\x00h\x00\x86q\x00"
    return b"\x80\x02)q\x00" + twice * 200 + b"}h\x00K\x01s."


HOSTILE = {
    "a call of a function": pickle.dumps({"version": "2.10", "x": Harmful(os.mkdir, ("made",))}, protocol=2),
    "the same in protocol 4": pickle.dumps(Harmful(os.mkdir, ("made",)), protocol=4),
    "a class": b"\x80\x02cbuiltins\nobject\n.",
    "an old instruction for an instance": b"(S'made'\nios\nmkdir\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a place in the memo that takes all memory": b"\x80\x02]r\xff\xff\xff\xff.",
    "bytes without end": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x0f.",
    "a text without end": b"\x80\x02X\xff\xff\xff\x7fab.",
    "a frame without end": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x0f.",
    "a key that cannot be hashed in time": _nested_key(),
    "a number without end": b"\x80\x02L" + b"9" * 100_000 + b"L\n.",
    "lists without end": b"\x80\x02" + b"]" * (dump_files._MOST_PARTS + 1) + b".",
    "marks without end": b"\x80\x02" + b"(" * (dump_files._MOST_PARTS + 1) + b".",
    "a memo without end": b"\x80\x04N" + b"\x94" * (dump_files._MOST_PARTS + 1) + b".",
    "JSON without an end": b"[" * 100_000,
    "a number in JSON without an end": b'{"version": ' + b"9" * 100_000 + b"}",
}
FOREIGN = {
    "nothing": b"",
    "spaces": b"  \n",
    "text": b"rank 1 is not here\n",
    "zeros": bytes(4096),
    "a list": pickle.dumps([1, 2], protocol=2),
    "another pickle": pickle.dumps({"epoch": 3}, protocol=2),
    "other JSON": b'{"traceEvents": []}',
    "a version to come": pickle.dumps(dump([], version="3.0"), protocol=2),
    "a version that is a number": pickle.dumps(dump([], version=2), protocol=2),
    "entries that are no list": pickle.dumps(dump([], entries="all"), protocol=2),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sound dumps of ranks 0 and 2."""
    monkeypatch.chdir(tmp_path)
    for rank in (0, 2):
        write(tmp_path, rank, [entry(1), entry(2, state="scheduled")])
    return tmp_path


def _notes(folder: Path) -> list[str]:
    found = examine(folder, folder, None, folder / "trace_")
    assert [one["rank"] for one in as_json(found)["torch_dumps"]["ranks"]] == [0, 2]
    return found.dumps.notes


@pytest.mark.parametrize("content", [pytest.param(data, id=what) for what, data in {**HOSTILE, **FOREIGN}.items()])
def test_a_file_that_is_no_dump_is_named_in_one_line_and_does_nothing(folder, content):
    (folder / "trace_1").write_bytes(content)
    (note,) = _notes(folder)

    assert note.startswith(f"{folder}/trace_1: ")
    assert len(note.splitlines()) == 1
    assert not (folder / "made").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (HOSTILE["a call of a function"], "it asks for posix.mkdir, which no dump does"),
        (HOSTILE["the same in protocol 4"], "it asks for posix.mkdir, which no dump does"),
        (b"\x80\x02X\x01\x00\x00\x00a)R.", "it holds an instruction that no dump holds"),
        (HOSTILE["an extension"], "it holds an instruction that no dump holds"),
        (HOSTILE["a key that cannot be hashed in time"], "a key is no text"),
        (FOREIGN["nothing"], "empty: its process ended while it wrote the file"),
        (FOREIGN["another pickle"], "not a dump of PyTorch's flight recorder"),
        (FOREIGN["a version to come"], "a dump of version 3.0; versions 2.x are known"),
        (SOUND[:-1], f"cut after {len(SOUND) - 1} bytes"),
    ],
)
def test_the_reason_is_told(folder, content, reason):
    (folder / "trace_1").write_bytes(content)
    assert _notes(folder) == [f"{folder}/trace_1: {reason}"]


@pytest.mark.parametrize("cut", range(1, len(SOUND), 13))
def test_a_dump_that_was_cut_is_named(folder, cut):
    (folder / "trace_1").write_bytes(SOUND[:cut])
    (note,) = _notes(folder)
    assert note.startswith(f"{folder}/trace_1: ")


def test_a_dump_with_a_byte_changed_is_read_or_named(folder):
    for place in range(0, len(SOUND), 7):
        changed = bytearray(SOUND)
        changed[place] ^= 0xFF
        (folder / "trace_1").write_bytes(changed)
        found = examine(folder, folder, None, folder / "trace_")
        assert len(found.dumps.dumps) + len(found.dumps.notes) == 3


def test_a_file_that_is_too_large_is_named_and_not_read(folder):
    with (folder / "trace_1").open("wb") as file:
        file.truncate(1 << 40)
    assert _notes(folder) == [f"{folder}/trace_1: larger than 16 MiB"]


def test_what_is_no_file_is_left_out(folder):
    os.mkfifo(folder / "trace_1")
    (folder / "trace_3").mkdir()
    (folder / "trace_4").symlink_to("nowhere")
    assert _notes(folder) == []


def test_a_file_that_becomes_a_pipe_is_named(folder):
    (folder / "trace_1").touch()
    files = dump_files.find_dumps(folder / "trace_", [])
    (folder / "trace_1").unlink()
    os.mkfifo(folder / "trace_1")
    with pytest.raises(dump_files.UnreadableDump, match="not a file"):
        dump_files.content(files[1].path)


def test_a_file_that_becomes_a_folder_is_named_and_leaves_no_descriptor_open(folder):
    (folder / "trace_1").mkdir()
    before = list(Path("/proc/self/fd").iterdir())
    with pytest.raises(dump_files.UnreadableDump, match="not a file"):
        dump_files.content(folder / "trace_1")
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


def test_a_file_that_may_not_be_read_is_named(folder):
    path = write(folder, 1, [entry(1)])
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    (note,) = _notes(folder)
    assert note == f"{path}: Permission denied"
    path.chmod(stat.S_IRUSR)


def test_a_name_with_a_line_end_stays_one_line(folder):
    (folder / "a\nnote: 1").write_bytes(b"")
    notes: list[str] = []
    assert dump_files.find_dumps(folder, notes) == []
    assert len("".join(notes).splitlines()) == 1


@pytest.mark.parametrize("ranks", [["a"], ["9" * 5000], "9" * 5000, [None], [[0]]])
def test_a_group_whose_ranks_are_no_numbers_is_one_of_unknown_ranks(folder, ranks):
    write(folder, 1, [entry(1)], pg_config={"0": {"name": "0", "desc": "default_pg", "ranks": ranks}})

    assert examine(folder, folder, None, folder / "trace_").dumps.of(1) is not None


def test_values_that_are_no_end_of_lists_take_no_time(folder):
    """Each field is one that takes 2 ** 64 steps to write out."""
    endless = _nested(64)
    fields = ("frames", "input_sizes", "input_dtypes", "output_sizes", "state", "time_created_ns", "is_p2p", "retired")
    hostile = [
        entry(1, **dict.fromkeys(fields, endless)),
        entry(1, frames=[{"name": endless, "filename": endless, "line": endless}] * 1000),
        entry(1, process_group=endless),
        entry(1, profiling_name=endless),
        entry(2, state="started", input_sizes=[[endless] * 9] * 100_000, input_dtypes=[endless] * 100_000),
    ]
    config = {"0": {"name": endless, "desc": endless, "ranks": endless}}
    write(folder, 1, hostile, pg_config=config)
    found = examine(folder, folder, None, folder / "trace_")

    as_text(found)
    json.dumps(as_json(found))
    assert found.dumps.of(1) is not None


def test_files_of_other_users_are_left_out_where_nobody_has_named_them(folder):
    notes: list[str] = []
    assert dump_files.find_dumps(folder / "trace_", notes, owners={os.geteuid() + 1}) == []
    assert notes == [f"2 files at {folder}/trace_ are of another user and left out"]


def test_one_file_can_be_named(folder):
    write(folder, 22, [])
    assert [file.rank for file in dump_files.find_dumps(folder / "trace_2", [])] == [2]


def test_more_files_than_are_read_are_counted(folder, monkeypatch):
    monkeypatch.setattr(dump_files, "MOST_FILES", 1)
    notes: list[str] = []
    assert [file.rank for file in dump_files.find_dumps(folder, notes)] == [0]
    assert notes == [f"{folder}: 1 dumps beyond the first 1 are left out"]
