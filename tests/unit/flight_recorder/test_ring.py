"""One ring: what is written is read back, by any thread, within its bounds, and never in the way of the program."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import read
from otel_rl.flight_recorder.ring import MARGIN, Ring, create

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return create(tmp_path, "one")


def test_an_operation_that_is_over_is_a_record_and_one_that_is_not_is_open(ring):
    step = ring.begin(layout.STEP, "", 7)
    collective = ring.begin(layout.COLLECTIVE, "all_reduce", 16, "0\tdefault_pg\t0-1", 3)
    ring.end(collective, False)

    found = read(ring.path)
    (over,) = found.records
    assert (over.kind, over.what, over.name, over.group) == (
        layout.COLLECTIVE,
        layout.DONE,
        "all_reduce",
        "0\tdefault_pg\t0-1",
    )
    assert (over.sequence, over.argument) == (3, 16)
    assert over.began <= over.moment
    (open_one,) = found.open
    assert (open_one.kind, open_one.argument) == (layout.STEP, 7)
    assert found.last_step[0] == 7
    ring.end(step, True)
    assert [one.what for one in read(ring.path).records] == [layout.DONE, layout.FAILED]
    assert read(ring.path).open == []


def test_operations_may_end_in_another_order_than_they_began_and_in_another_thread(ring):
    first, second = ring.begin(layout.PHASE, "first"), ring.begin(layout.PHASE, "second")
    ring.end(first, False)
    assert [one.name for one in read(ring.path).open] == ["second"]

    other = threading.Thread(target=ring.end, args=(second, False))
    other.start()
    other.join()
    assert read(ring.path).open == []


def test_each_thread_has_a_lane(ring):
    names = ["a", "b"]
    gate, opened = threading.Event(), threading.Barrier(3)

    def work(name: str) -> None:
        ring.begin(layout.TOOL, name)
        opened.wait()
        gate.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for one in threads:
        one.start()
    opened.wait()
    found = read(ring.path)
    gate.set()
    for one in threads:
        one.join()
    assert sorted(one.name for one in found.open) == names
    assert len({one.lane for one in found.open}) == 2


def test_more_open_operations_than_a_thread_has_entries_for_are_in_the_ring(ring):
    handles = [ring.begin(layout.TOOL, f"tool {number}") for number in range(layout.ENTRIES + 2)]
    found = read(ring.path)
    assert len(found.open) == layout.ENTRIES
    assert [(one.name, one.what) for one in found.records] == [
        (f"tool {number}", layout.BEGIN) for number in range(layout.ENTRIES, layout.ENTRIES + 2)
    ]
    for handle in handles:
        ring.end(handle, False)
    assert read(ring.path).open == []
    assert len({handle[2] for handle in (ring.begin(layout.TOOL, "again") for _ in range(layout.ENTRIES))}) == 16


def test_more_threads_than_lanes_take_those_of_threads_that_have_ended(ring):
    def work() -> None:
        ring.end(ring.begin(layout.TOOL, "tool"), False)

    for _ in range(layout.LANES * 2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    lanes = {one.lane for one in read(ring.path).records}
    assert lanes <= set(range(layout.LANES))


def test_the_ring_keeps_the_newest_records(ring):
    for number in range(layout.RECORDS + 5):
        ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", number), False)
    found = read(ring.path)
    assert len(found.records) == layout.RECORDS
    assert (found.records[0].argument, found.records[-1].argument) == (5, layout.RECORDS + 4)
    assert ring.path.stat().st_size == layout.SIZE


def test_names_without_room_share_one_name(ring):
    for number in range(layout.TEXTS * 2):
        ring.end(ring.begin(layout.TOOL, f"made up {number}"), False)
    names = [one.name for one in read(ring.path).records]
    assert names[0] == "made up 0"
    assert names[-1] == layout.OTHER_TEXT
    assert len(set(names)) <= layout.TEXTS


def test_a_long_name_is_cut(ring):
    ring.begin(layout.TOOL, "ä" * 500)
    (found,) = read(ring.path).open
    assert found.name.startswith("ä" * 60)
    assert len(found.name) < layout.TEXT_SIZE


def test_a_handle_of_another_ring_is_ignored(ring, tmp_path):
    other = create(tmp_path, "other")
    ring.end(other.begin(layout.STEP, "", 1), False)
    assert read(ring.path).records == []
    assert len(read(other.path).open) == 1


def test_only_the_owner_can_read_the_file(ring):
    assert ring.path.stat().st_mode & 0o777 == 0o600


def test_a_name_that_is_taken_is_not_overwritten(ring, tmp_path):
    second = create(tmp_path, "one")
    assert second.path != ring.path
    assert read(ring.path).clocks[0] < read(second.path).clocks[0]


def test_the_space_of_the_file_is_reserved(ring):
    assert ring.path.stat().st_blocks * 512 >= layout.SIZE


def test_where_the_space_cannot_be_reserved_no_file_stays(monkeypatch, tmp_path):
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        create(tmp_path, "one")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_the_size_of_files_does_not_end_a_program_that_dies_of_it(tmp_path):
    program = f"""
import pathlib, resource, signal
from otel_rl.flight_recorder.ring import create
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    create(pathlib.Path({str(tmp_path)!r}), "one")
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "RLIMIT_FSIZE is 4096 bytes" in done.stdout


def test_a_file_system_with_little_room_is_left_to_the_program(monkeypatch, tmp_path):
    """A page that the program's own shared memory does not get ends it by SIGBUS."""
    there = os.statvfs(tmp_path)

    class Small:
        f_frsize = there.f_frsize
        f_bavail = (layout.SIZE + MARGIN) // there.f_frsize - 1

    monkeypatch.setattr(os, "statvfs", lambda _: Small)
    with pytest.raises(OSError, match="32 MiB would stay free") as caught:
        create(tmp_path, "two")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
