"""Rings that are damaged, cut, foreign, or of a process whose pid somebody else has now."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import UnreadableRing, read
from otel_rl.flight_recorder.ring import Ring, create
from otel_rl.process import lifetime

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Behind the records of steps and phases.
_FIRST_CALL = layout.RECORDS_AT + layout.STEP_RECORDS * layout.RECORD_SIZE


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    ring = create(tmp_path, "one")
    ring.identify("run", "0.0.0", "host", (1, 2, 1))
    for number in range(10):
        ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, "0\tpg\t0-1", number + 1), False)
    step = ring.begin(layout.STEP, "", 4)
    yield ring
    ring.end(step)


def _changed(ring: Ring, tmp_path: Path, place: int, data: bytes) -> Path:
    content = bytearray(ring.path.read_bytes())
    content[place : place + len(data)] = data
    path = tmp_path / "changed.ring"
    path.write_bytes(content)
    return path


def _refusal(path: Path) -> str:
    with pytest.raises(UnreadableRing) as caught:
        read(path)
    return str(caught.value)


def test_who_wrote_it_is_read_back(ring):
    found = read(ring.path)
    assert (found.run_id, found.attempt, found.host) == ("run", "0.0.0", "host")
    assert (found.rank, found.world_size, found.local_rank) == (1, 2, 1)
    assert found.lifetime == lifetime.own()
    assert found.is_alive() is True
    assert (found.ended, found.end_reason, found.torn) == (0, "", 0)


def test_the_orderly_end_and_its_reason_are_read_back(ring):
    ring.finish("uncaught ValueError")
    found = read(ring.path)
    assert found.ended > 0
    assert found.end_reason == "uncaught ValueError"
    assert found.heartbeat > 0


def test_a_rank_that_is_not_known_yet_is_none(tmp_path):
    ring = create(tmp_path, "early")
    assert read(ring.path).rank is None
    ring.identify("run", "0.0.0", "host", (3, 4, -1))
    assert (read(ring.path).rank, read(ring.path).local_rank) == (3, None)


@pytest.mark.parametrize("size", [0, 10, layout.FORMAT.size, layout.HEADER_SIZE, layout.SIZE // 2, layout.SIZE - 1])
def test_a_ring_that_was_cut_is_refused_with_its_size(ring, tmp_path, size):
    path = tmp_path / "cut.ring"
    path.write_bytes(ring.path.read_bytes()[:size])
    assert (f"cut after {size} of {layout.SIZE} bytes" if size >= layout.FORMAT.size else "empty") in _refusal(path)


def test_another_version_is_named(ring, tmp_path):
    path = _changed(ring, tmp_path, 8, struct.pack("<I", layout.VERSION + 1))
    assert f"another version of otel-rl (format {layout.VERSION + 1}, not {layout.VERSION})" in _refusal(path)


def test_another_file_is_no_ring(ring, tmp_path):
    assert "not a ring of otel-rl" in _refusal(_changed(ring, tmp_path, 0, b"GARBAGE!"))


def test_other_sizes_are_a_damaged_header(ring, tmp_path):
    assert "damaged header" in _refusal(_changed(ring, tmp_path, 12, struct.pack("<I", 1 << 31)))


def test_a_boot_id_of_garbage_is_a_damaged_header(ring, tmp_path):
    assert "damaged header" in _refusal(_changed(ring, tmp_path, layout.LIFETIME_AT + 24, b"\xff" * 8))


def test_a_file_whose_process_died_while_it_made_it_is_refused(tmp_path):
    path = tmp_path / "new.ring"
    path.write_bytes(bytes(layout.SIZE))
    assert "ended while it made the file" in _refusal(path)


def test_a_file_that_is_gone_or_may_not_be_read_is_refused(tmp_path):
    assert "No such file" in _refusal(tmp_path / "none.ring")


def test_a_folder_among_the_rings_is_refused_and_leaves_no_descriptor_open(tmp_path):
    (tmp_path / "folder.ring").mkdir()
    assert "not a file" in _refusal(tmp_path / "folder.ring")
    opened = {os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()}
    assert str(tmp_path / "folder.ring") not in opened


def test_a_pipe_among_the_rings_is_refused_and_a_longer_file_is_read_to_its_bound(ring, tmp_path):
    os.mkfifo(tmp_path / "pipe.ring")
    assert "not a file" in _refusal(tmp_path / "pipe.ring")
    path = tmp_path / "long.ring"
    path.write_bytes(ring.path.read_bytes() + b"x" * 1000)
    assert len(read(path).records) == 10


def test_a_name_cannot_give_commands_to_a_terminal(ring):
    _ = ring.begin(layout.TOOL, "\x1b[2Jsearch\n")
    assert read(ring.path).open[-1].name == "\N{REPLACEMENT CHARACTER}[2Jsearch\N{REPLACEMENT CHARACTER}"


def _numbers(found) -> list[int]:
    return [one.sequence for one in found.records]


@pytest.mark.parametrize("place", [0, 8, 14, 16])
def test_a_torn_collective_is_left_out_and_counted(ring, tmp_path, place):
    at = layout.COLLECTIVES_AT + 2 * layout.COLLECTIVE_SIZE + place
    found = read(_changed(ring, tmp_path, at, b"\xfe\xfe" if place != 8 else struct.pack("<d", float("nan"))))
    assert found.torn == 1
    assert _numbers(found) == [1, 2, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("word", [1, 2])
def test_a_collective_whose_writer_was_in_the_middle_is_left_out(ring, tmp_path, word):
    """The first words are of the new record, the others of the one that was there before."""
    at = layout.COLLECTIVES_AT + 3 * layout.COLLECTIVE_SIZE
    found = read(_changed(ring, tmp_path, at, struct.pack("<dd", 1e6, 17.0)[: 8 * word]))
    assert (found.torn, _numbers(found)) == (1, [1, 2, 3, 5, 6, 7, 8, 9, 10])


@pytest.mark.parametrize("place", [0, 8, 9, 40])
def test_a_torn_record_is_left_out_and_counted(ring, tmp_path, place):
    for name in ("first", "second"):
        ring.end(ring.begin(layout.TOOL, name), False)
    at = _FIRST_CALL + 2 * layout.RECORD_SIZE + place
    found = read(_changed(ring, tmp_path, at, b"\xfe\xfe"))
    assert found.torn == 1
    assert [one.name for one in found.records if one.kind == layout.TOOL] == ["first"]


def test_a_record_whose_writer_was_in_the_middle_is_left_out(ring, tmp_path):
    # struct fills the place with zeros, then writes the fields in order.
    ring.end(ring.begin(layout.TOOL, "search"), False)
    at = _FIRST_CALL + layout.RECORD_SIZE
    half = ring.path.read_bytes()[at : at + 20].ljust(layout.RECORD_SIZE, b"\0")
    found = read(_changed(ring, tmp_path, at, half))
    assert (found.torn, len(found.records)) == (1, 10)


def test_a_torn_entry_is_left_out_and_counted(ring, tmp_path):
    at = ring.path.read_bytes().index(struct.pack("<QBB", 1, layout.STEP, 0), layout.ENTRIES_AT)
    found = read(_changed(ring, tmp_path, at, b"\0" * 8))
    assert (found.open, found.torn) == ([], 1)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_anywhere_is_refused_or_read_and_nothing_else(ring, tmp_path, seed):
    source = random.Random(seed)  # noqa: S311 - a test that can be repeated
    content = bytearray(ring.path.read_bytes())
    for _ in range(200):
        place = source.randrange(len(content) if seed % 2 else 4096)
        content[place] = source.randrange(256)
    path = tmp_path / "garbage.ring"
    path.write_bytes(content)
    try:
        found = read(path)
    except UnreadableRing:
        return
    found.is_alive()
    assert found.last_sign is not None


def test_a_pid_that_another_process_has_now_is_not_taken_for_the_writer(ring, tmp_path):
    own = lifetime.own()
    place = layout.LIFETIME_AT + 8
    path = _changed(ring, tmp_path, place, struct.pack("<q", own.start_ticks - 1))
    assert read(path).is_alive() is False


def test_a_process_of_an_earlier_boot_or_another_machine_cannot_be_judged(ring, tmp_path):
    path = _changed(ring, tmp_path, layout.LIFETIME_AT + 24, b"00000000-0000-0000-0000-000000000000")
    assert read(path).is_alive() is None


def test_a_process_of_another_pid_namespace_cannot_be_judged(ring, tmp_path):
    path = _changed(ring, tmp_path, layout.LIFETIME_AT + 16, struct.pack("<q", 1))
    assert read(path).is_alive() is None


def test_a_process_that_was_killed_is_not_alive_before_its_parent_has_collected_it(tmp_path):
    program = f"""
import os, pathlib, signal
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.ring import create
step = create(pathlib.Path({str(tmp_path)!r}), "child").begin(layout.STEP, "", 9)
os.kill(os.getpid(), signal.SIGKILL)
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    # Ended, and not collected.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = read(tmp_path / "child.ring")
    assert found.is_alive() is False
    assert [(one.kind, one.argument) for one in found.open] == [(layout.STEP, 9)]
    child.wait()
    assert read(tmp_path / "child.ring").is_alive() is False


def test_a_reader_beside_a_writer_never_sees_a_mixed_record(tmp_path):
    ring = create(tmp_path, "busy")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            # Name, number and group or argument belong together.
            tool = ring.begin(layout.TOOL, f"tool {number % 7}", number)
            ring.end(ring.begin(layout.COLLECTIVE, f"all_{number % 7}", 0, f"group {number % 7}", number), False)
            ring.end(tool, False)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(20):
            found = read(ring.path)
            events = (*found.records, *found.open)
            assert all(one.name == f"tool {one.argument % 7}" for one in events if one.kind == layout.TOOL)
            assert all(
                (one.name, one.group) == (f"all_{one.sequence % 7}", f"group {one.sequence % 7}")
                for one in events
                if one.kind == layout.COLLECTIVE
            )
    finally:
        stop.set()
        thread.join()


def test_a_ring_of_another_user_is_refused(ring):
    assert read(ring.path, {os.geteuid()}).run_id == "run"
    with pytest.raises(UnreadableRing, match="of another user"):
        read(ring.path, {os.geteuid() + 1})


def test_a_world_size_that_no_job_has_is_a_damaged_header(ring, tmp_path):
    numbers = struct.pack("<qqq", 0, 1 << 40, 0)
    assert "damaged header" in _refusal(_changed(ring, tmp_path, layout.RANK_AT, numbers))
