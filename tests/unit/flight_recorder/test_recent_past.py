"""Who asks for the recent past gets what the whole ring has of it, whatever has been overwritten or is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.reader import RECENT_STEPS, read
from otel_rl.flight_recorder.ring import create

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write so many collectives, each a microsecond; with each tenth a phase, with each hundredth a step."""
    ring = create(tmp_path, "one")
    ring.identify("run", "0.0.0", "host", (0, 2, 0))
    now = [1_000_000]
    monkeypatch.setattr("otel_rl.flight_recorder.ring.clock", lambda: now[0] * 1_000)
    monkeypatch.setattr(collective_places, "clock", lambda: now[0] / 1e6)

    def write(number: int, open_every: int = 0) -> tuple[Path, int]:
        for count in range(number):
            now[0] += 1
            stays_open = bool(open_every) and not count % open_every
            what = ring.collective("all_reduce", "stuck" if stays_open else "group")
            place = ring.places.begin(what + count % 7 + 1, now[0] / 1e6)
            assert place is not None
            if not stays_open:
                collective_places.end(place, now[0] / 1e6 + 1e-7, False)
        return ring.path, now[0] * 1_000

    return write


@pytest.mark.parametrize("number", [0, 1, 200, 256, 257, 5_000, 12_288, 12_289, 30_000])
@pytest.mark.parametrize("open_every", [0, 256, 1_000])
def test_collectives_since_a_moment_are_those_of_the_whole_ring(write, number, open_every):
    path, now = write(number, open_every)
    whole = read(path)

    for back in (0, 1, 100, 256, 300, 4_000, 12_000):
        since = now - back * 1_000
        recent = read(path, since=since)
        expected = [event for event in (*whole.records, *whole.open) if event.began >= since]
        assert sorted((*recent.records, *recent.open)) == sorted(expected)


def test_of_steps_the_newest_are_given_however_early_they_ended(tmp_path):
    ring = create(tmp_path, "one")
    ring.identify("run", "0.0.0", "host", (0, 2, 0))
    for number in range(100):
        ring.end(ring.begin(layout.STEP, "", number), False)
        ring.end(ring.begin(layout.PHASE, "train"), False)
    whole = read(ring.path)

    recent = read(ring.path, since=whole.records[-1].moment + 1)

    assert [event.argument for event in recent.records] == list(range(100 - RECENT_STEPS, 100))


@pytest.mark.parametrize(("number", "recorded"), [(1.5, 1), (1 << 70, (1 << 63) - 1), (float("nan"), 0)])
def test_a_step_is_recorded_however_the_program_numbers_it(tmp_path, number, recorded):
    ring = create(tmp_path, "one")
    ring.identify("run", "0.0.0", "host", (0, 2, 0))
    ring.end(ring.begin(layout.STEP, "", number), False)

    assert [event.argument for event in read(ring.path).records] == [recorded]
