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
from otel_rl.flight_recorder.reader import read, read_current
from otel_rl.flight_recorder.ring import MARGIN, Handle, Ring, create

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
    assert over.sequence == 3
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


def test_tools_and_model_calls_take_no_place_of_steps_phases_and_collectives(ring):
    """However many are open: those beyond the places are counted."""
    handles = [ring.begin(layout.TOOL, "tool") for _ in range(layout.CALL_ENTRIES + 3)]
    others = [ring.begin(kind, "all_reduce") for kind in (layout.STEP, layout.PHASE, layout.COLLECTIVE, layout.WAIT)]

    found = read(ring.path)
    assert len([one for one in found.open if one.kind == layout.TOOL]) == layout.CALL_ENTRIES
    assert [one.kind for one in found.open[-4:]] == [layout.STEP, layout.PHASE, layout.COLLECTIVE, layout.WAIT]
    assert found.unlisted == (0, 3)
    for handle in handles:
        ring.end(handle, False)
    found = read(ring.path)
    assert len(found.open) == len(others)
    assert found.unlisted == (0, 0)
    _ = ring.begin(layout.TOOL, "again")
    assert read(ring.path).open[-1].name == "again"


class Interrupted:
    """The words of a ring; a signal handler raises before the one at ``place`` of an entry or record is written."""

    def __init__(self, words, place):
        self._words = words
        self._left = place

    def __setitem__(self, at, value):
        if self._left == 0:
            self._left = -1
            raise KeyboardInterrupt
        self._left -= 1
        self._words[at] = value


@pytest.mark.parametrize("word", range(5))
def test_a_signal_handler_that_raises_inside_begin_leaves_nothing_open(ring, monkeypatch, word):
    free = len(ring._calls.free)
    monkeypatch.setattr(ring, "_words", Interrupted(ring._words, word))
    with pytest.raises(KeyboardInterrupt):
        ring.begin(layout.TOOL, "search")
    monkeypatch.undo()
    assert len(ring._calls.free) == free
    assert read(ring.path).open == []


def test_an_operation_that_begins_again_is_another_one(ring):
    handle = ring.begin(layout.PHASE, "backward")
    ring.end(handle)
    first = read(ring.path).records[0]
    assert ring.begin_again(handle)
    (found,) = read(ring.path).open
    assert (found.kind, found.name) == (layout.PHASE, "backward")
    assert found.moment > first.moment
    ring.end(handle, failed=True)
    found = read(ring.path)
    assert (found.open, [one.what for one in found.records]) == ([], [layout.DONE, layout.FAILED])


def test_a_step_that_begins_again_is_the_next_one(ring):
    handle = ring.begin(layout.STEP, "", 6, loop=2)
    ring.end(handle)
    assert ring.begin_again(handle, 7)
    found = read(ring.path)
    ((opened,), (ended,)) = found.open, found.records
    assert (opened.kind, opened.argument, opened.loop, found.last_step[0]) == (layout.STEP, 7, 2, 7)
    assert (ended.kind, ended.argument) == (layout.STEP, 6)


def test_an_operation_that_is_open_does_not_begin_again(ring):
    handle = ring.begin(layout.PHASE, "backward")
    assert not ring.begin_again(handle)
    found = read(ring.path)
    assert (len(found.open), found.records) == (1, [])
    ring.end(handle)


def test_an_operation_of_another_ring_does_not_begin_again(ring, tmp_path):
    other = create(tmp_path, "other")
    handle = other.begin(layout.PHASE, "backward")
    other.end(handle)
    assert not ring.begin_again(handle)
    assert read(ring.path).open == []


def test_calls_do_not_overwrite_steps_and_phases(ring):
    for kind, name in ((layout.PHASE, "reward"), (layout.STEP, "")):
        ring.end(ring.begin(kind, name, 7))
    for _ in range(2 * layout.RECORDS):
        ring.end(ring.begin(layout.TOOL, "search"))
        ring.end(ring.begin(layout.MODEL_CALL, "chat"))
    found = read(ring.path).records
    assert [one.kind for one in found[:2]] == [layout.PHASE, layout.STEP]
    assert len(found) == 2 + layout.CALL_RECORDS


@pytest.mark.parametrize("kind", [layout.STEP, layout.PHASE, layout.TOOL, layout.MODEL_CALL])
def test_an_operation_whose_handle_is_lost_is_over(ring, kind):
    free = len(ring._steps.free), len(ring._calls.free)
    handle = ring.begin(kind, "lost", 7)
    assert [one.argument for one in read(ring.path).open] == [7]
    del handle
    found = read(ring.path)
    assert (found.open, [one.what for one in found.records]) == ([], [layout.FAILED])
    assert (len(ring._steps.free), len(ring._calls.free)) == free


def test_a_forked_child_that_loses_a_handle_ends_nothing_of_its_parent(ring):
    handle = ring.begin(layout.TOOL, "search")
    child = os.fork()
    if child == 0:
        del handle
        os._exit(0)
    os.waitpid(child, 0)
    assert [one.name for one in read(ring.path).open] == ["search"]
    ring.end(handle)


def test_what_is_open_at_the_orderly_end_stays_open_in_the_ring(ring):
    handle = ring.begin(layout.TOOL, "search")
    ring.finish("uncaught ValueError")
    del handle
    assert [one.name for one in read(ring.path).open] == ["search"]


@pytest.mark.parametrize("word", range(7))
def test_an_end_that_a_signal_handler_interrupts_leaves_one_record(ring, monkeypatch, word):
    handle = ring.begin(layout.STEP, "", 7)
    monkeypatch.setattr(ring, "_words", Interrupted(ring._words, word))
    with pytest.raises(KeyboardInterrupt):
        ring.end(handle)
    monkeypatch.undo()
    del handle
    found = read(ring.path)
    assert (found.open, [one.argument for one in found.records]) == ([], [7])


def test_an_operation_that_is_ended_twice_overwrites_no_later_record(ring):
    first = ring.begin(layout.TOOL, "first")
    ring.end(first)
    for number in range(layout.CALL_RECORDS):
        ring.end(ring.begin(layout.TOOL, f"later {number}"))
    before = read(ring.path)
    ring.end(first)

    assert [one.name for one in read(ring.path).records] == [one.name for one in before.records]
    assert read(ring.path).unlisted == (0, 0)


def test_a_handle_that_a_signal_handler_kept_from_being_made_goes_without_a_word():
    Handle.__new__(Handle).__del__()


@pytest.mark.parametrize("kind", [layout.COLLECTIVE, layout.WAIT])
def test_a_collective_that_was_not_ended_is_over_after_a_later_one_of_its_group(ring, kind):
    """A signal handler has raised just after its begin."""
    ring.begin(kind, "all_reduce", 0, "group", 3)
    ring.end(ring.begin(kind, "all_reduce", 0, "other", 4))
    assert [one.sequence for one in read(ring.path).open] == [3]
    ring.end(ring.begin(kind, "all_reduce", 0, "group", 4), failed=True)
    assert [one.sequence for one in read(ring.path).open] == [3]
    ring.end(ring.begin(kind, "all_reduce", 0, "group", 4))
    assert read(ring.path).open == []


def test_a_wait_stays_open_after_a_later_collective_that_keeps_no_ranks_together(ring):
    """The root of a broadcast waits for nobody."""
    ring.begin(layout.WAIT, "all_reduce", 0, "group", 3)
    ring.end(ring.begin(layout.WAIT, "broadcast", 0, "group", 4))
    assert [one.sequence for one in read(ring.path).open] == [3]


def test_a_collective_that_is_open_is_not_overwritten(ring):
    stuck = ring.begin(layout.COLLECTIVE, "all_reduce", 0, "stuck", 1)
    for number in range(2, 2 * layout.COLLECTIVES):
        ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, "group", number), False)
    found = read(ring.path)
    assert [one.sequence for one in found.open] == [1]
    assert len(found.records) == layout.COLLECTIVES - 1
    ring.end(stuck, False)
    assert read(ring.path).open == []


def test_where_all_places_are_open_a_collective_is_left_out(ring):
    handles = [ring.begin(layout.COLLECTIVE, "all_reduce", 0, "", number + 1) for number in range(layout.COLLECTIVES)]
    ring.end(ring.begin(layout.COLLECTIVE, "broadcast"), False)
    assert {one.name for one in read(ring.path).open} == {"all_reduce"}
    for handle in handles:
        ring.end(handle, False)
    ring.begin(layout.COLLECTIVE, "broadcast")
    assert [one.name for one in read(ring.path).open] == ["broadcast"]


def test_threads_share_the_places_of_collectives(ring):
    """Each record is there once, whatever thread gives out the next segment."""
    number_of_threads, each = 4, layout.SEGMENT * 3

    def work(first: int) -> None:
        for number in range(first, first + each):
            ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, "", number), False)

    threads = [threading.Thread(target=work, args=(1 + one * each,)) for one in range(number_of_threads)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = read(ring.path)
    assert sorted(one.sequence for one in found.records) == list(range(1, number_of_threads * each + 1))
    assert (found.open, found.torn) == ([], 0)


def test_the_ring_keeps_the_newest_records(ring):
    assert not read(ring.path).has_lost_collectives
    for number in range(1, layout.COLLECTIVES + 6):
        ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, "", number), False)
    found = read(ring.path)
    assert found.has_lost_collectives
    assert [one.sequence for one in found.records] == list(range(6, layout.COLLECTIVES + 6))
    for kind, length in ((layout.PHASE, layout.STEP_RECORDS), (layout.TOOL, layout.CALL_RECORDS)):
        for number in range(length + 5):
            ring.end(ring.begin(kind, "search", number), False)
        kept = [one.argument for one in read(ring.path).records if one.kind == kind]
        assert kept == list(range(5, length + 5))
    assert ring.path.stat().st_size == layout.SIZE


def test_the_number_of_a_collective_may_be_as_large_as_its_place_allows(ring):
    group = [
        ring.begin(layout.COLLECTIVE, "all_reduce", 0, f"group {number}") for number in range(layout.GROUPS.length)
    ]
    ring.begin(layout.WAIT, "barrier", 0, f"group {layout.GROUPS.length - 3}", layout.SEQUENCE_MASK)
    found = read(ring.path).open[-1]
    assert (found.kind, found.name, found.sequence) == (layout.WAIT, "barrier", layout.SEQUENCE_MASK)
    assert found.group == f"group {layout.GROUPS.length - 3}"
    assert len(group) == layout.GROUPS.length
    assert read(ring.path).open[-2].group == layout.OTHER_TEXT


def test_names_without_room_share_one_name(ring):
    for number in range(layout.NAMES.length + 50):
        ring.end(ring.begin(layout.TOOL, f"made up {number}"), False)
    names = {one.name for one in read(ring.path).records}
    assert f"made up {layout.NAMES.length - 3}" in names
    assert layout.OTHER_TEXT in names
    assert f"made up {layout.NAMES.length - 2}" not in names
    # Groups and operations have tables of their own.
    ring.begin(layout.COLLECTIVE, "all_reduce", 0, "group")
    assert [(one.name, one.group) for one in read(ring.path).open] == [("all_reduce", "group")]


def test_two_threads_that_add_names_at_once_give_them_different_numbers(ring):
    """The second one comes while the first one writes."""
    names = ring._names
    write, others = names._text, []

    class Interrupted:
        size = write.size

        @staticmethod
        def pack_into(*given: object) -> None:
            if not others:
                others.append(0)
                others[0] = names.code("second")
            write.pack_into(*given)

    names._text = Interrupted
    first = names.code("first")
    assert first != others[0]
    _ = [ring.begin(layout.TOOL, name) for name in ("first", "second")]
    assert [one.name for one in read(ring.path).open] == ["first", "second"]


def test_a_long_name_is_cut(ring):
    _ = ring.begin(layout.TOOL, "ä" * 500)
    (found,) = read(ring.path).open
    assert found.name.startswith("ä" * 60)
    assert len(found.name) < layout.NAMES.size


def test_a_handle_of_another_ring_is_ignored(ring, tmp_path):
    other = create(tmp_path, "other")
    step = other.begin(layout.STEP, "", 1)
    ring.end(step, False)
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
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


def test_a_part_of_the_run_is_open_in_the_ring_and_leaves_a_record_where_it_was_long_or_failed(flight, monkeypatch):
    flight.show()
    flight.end(flight.begin(layout.PART, "rendezvous", 2))
    assert read(flight.ring.path).records == []
    handle = flight.begin(layout.PART, "rendezvous", 2)
    assert (
        read_current(flight.ring.path)
        .part()
        .words.startswith("before the first step, in init_process_group (world size 2) for 0 s")
    )
    flight.end(handle, True)
    assert read(flight.ring.path).part().name == "init_process_group (world size 2)"
    monkeypatch.setattr(layout, "SHORTEST_PART", 0)
    flight.end(flight.begin(layout.PART, "model"))
    assert read(flight.ring.path).part() is None
    assert [one.name for one in read(flight.ring.path).records] == ["rendezvous", "model"]
