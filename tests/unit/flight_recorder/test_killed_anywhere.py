"""A process that is killed at any instruction: its ring tells the collective that it was in."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import read

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import mmap, sys, time
from pathlib import Path
from otel_rl.collectives.flight_records import FlightRecords
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.flight_recorder.recorder import flight
from otel_rl.flight_recorder.ring import create

class Work:
    def bare_wait(self):
        truth[1] = truth[0]

class Group:
    group_name = group_desc = "0"
    def size(self):
        return 2
    def issue(self, *_):
        truth[0] += 1
        return work

with open(sys.argv[1], "r+b") as file:
    truth = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")
flight._use(create(Path(sys.argv[2]), "one"))
recorder = CollectiveRecorder()
recorder.flight_records = FlightRecords(lambda _: "0\\tpg\\t0-1", lambda call, *args: call(*args))
Group.method = recorder.recording("all_reduce", None, Group.issue)
Work.wait = recorder.waiting(Work.bare_wait)
group, work = Group(), Work()
while True:
    group.method("tensor", "options").wait()
"""


@pytest.mark.parametrize("seed", range(6))
def test_its_ring_has_the_collective_that_it_was_in(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "truth"
    path.write_bytes(bytes(4096))
    # In the first lap of the ring, and in later ones.
    most = random.Random(seed).randrange(1, 3 * layout.COLLECTIVES)  # noqa: S311 - a test that can be repeated
    with path.open("r+b") as file:
        truth = mmap.mmap(file.fileno(), 4096)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, path, tmp_path])
    try:
        while struct.unpack_from("<q", truth)[0] < most:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    issued, waited_for = struct.unpack_from("<qq", truth)

    found = read(tmp_path / "one.ring")
    # Only the record that it was writing may be half there.
    assert found.torn <= 1
    numbers = {one.sequence for one in (*found.records, *found.open)}
    assert max(numbers) in {issued, issued + 1}
    # What it was in is open, or has just ended or begun; what it has waited for is over.
    assert len(found.open) <= 1
    assert all(one.sequence >= waited_for for one in found.open)
    launches = {one.sequence for one in (*found.records, *found.open) if one.kind == layout.COLLECTIVE}
    oldest = min(launches)
    assert launches == set(range(oldest, max(numbers) + 1))
