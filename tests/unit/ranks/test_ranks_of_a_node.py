"""Rings of the ranks of one node, written by the real writer with a clock of the test: which steps are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.reader import read
from otel_rl.flight_recorder.ring import Ring, create
from otel_rl.ranks.stragglers.node import NodeComparison
from otel_rl.ranks.stragglers.run import compare_rings
from otel_rl.ranks.stragglers.timeline import StepKey

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.ranks.stragglers.comparison import Straggler

GROUP = "0\tdefault_pg\t0-1"
MS = 1_000_000


class Ranks:
    """Two ranks of a node; each has a moment of its own, at which the next thing that it does is written."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000 * MS
        monkeypatch.setattr("otel_rl.flight_recorder.ring.clock", lambda: self.now)
        monkeypatch.setattr(collective_places, "clock", lambda: self.now / 1e9)
        self.folder = folder
        self.rings = [self.add(rank) for rank in range(2)]
        self.number = 0
        self.node = NodeComparison(self.rings[0].path)

    def add(self, rank: int) -> Ring:
        ring = create(self.folder, f"otel-rl-run-{rank}-{len(list(self.folder.iterdir()))}")
        ring.identify("run", "0.0.0", "node", (rank, 2, rank))
        return ring

    def trains(self, iteration: int, work: tuple[int, int], loop: int = 0, calls: int = 0) -> None:
        """Both ranks work so many ms in a phase, then meet in a collective and end the step."""
        self.number += 1
        begun, met = self.now, self.now + max(work) * MS
        for ring, own in zip(self.rings, work, strict=True):
            self.now = begun
            step, phase = ring.begin(layout.STEP, "", iteration, loop=loop), ring.begin(layout.PHASE, "reward")
            for _ in range(calls):
                ring.end(ring.begin(layout.TOOL, "search"))
                ring.end(ring.begin(layout.MODEL_CALL, "chat"))
            self.now += own * MS
            ring.end(phase)
            self.meets(ring, met)
            ring.end(step)

    def meets(self, ring: Ring, at: int) -> None:
        ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, GROUP, self.number))
        wait = ring.begin(layout.WAIT, "all_reduce", 0, GROUP, self.number)
        self.now = at + MS
        ring.end(wait)


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(tmp_path, monkeypatch)


def late(straggler: Straggler | None) -> tuple[int, str] | None:
    return None if straggler is None else (straggler.rank, straggler.phase)


def test_the_late_rank_of_each_step_is_found(ranks):
    for number in range(1, 5):
        ranks.trains(number, (20, 60))
    found = ranks.node.look()

    assert [one.key for one in found] == [StepKey("", number) for number in (2, 3, 4)]
    assert {late(one.straggler) for one in found} == {(1, "reward")}
    assert ranks.node.look() == []


def test_steps_of_two_loops_without_names_that_are_open_at_once_are_told_apart(ranks):
    """Both have the same iterations; the second one is open while the first one runs its step."""
    for number in range(1, 5):
        outer = [ring.begin(layout.STEP, "", number, loop=1) for ring in ranks.rings]
        ranks.trains(number, (20, 60), loop=0)
        for ring, step in zip(ranks.rings, outer, strict=True):
            ring.end(step)
        ranks.now += 500 * MS
    found = ranks.node.look()

    assert {one.key for one in found} == {StepKey("", number, loop) for number in (2, 3, 4) for loop in (0, 1)}
    # From the end of the loop's own step before: the wait and the work between two steps of the loop.
    assert [one.length for one in found] == pytest.approx([0.561] * len(found))


def test_thousands_of_calls_in_a_step_hide_no_straggler(ranks):
    for number in range(1, 5):
        ranks.trains(number, (20, 60), calls=2_000)
    found = ranks.node.look()

    assert [one.key.iteration for one in found] == [2, 3, 4]
    assert {late(one.straggler) for one in found} == {(1, "reward")}


def test_steps_whose_collectives_a_ring_no_longer_holds_are_not_taken_for_healthy_ones(ranks):
    """In the third step each rank issues more collectives than a ring has places."""
    for number in range(1, 8):
        ranks.trains(number, (20, 60))
        for _ in range(layout.COLLECTIVES // 2 if number == 3 else 0):
            ranks.number += 1
            for ring in ranks.rings:
                ranks.meets(ring, ranks.now)
    live = ranks.node.look()
    run = compare_rings([read(ring.path) for ring in ranks.rings])

    assert {one.key.iteration for one in live} == {5, 6, 7}
    assert run is not None
    assert {one.key.iteration for one in run.steps} == {5, 6, 7}
    assert (run.not_whole, run.incomplete) == (3, "collectives of 3 of 6 steps were no longer in the ring")
    assert {late(one.straggler) for one in (*live, *run.steps)} == {(1, "reward")}


@pytest.mark.parametrize("child_of", [0, 1])
def test_a_child_with_the_rank_of_its_parent_does_not_stand_in_for_it(ranks, child_of):
    """Its ring has steps of the same numbers, and no collectives."""
    child = ranks.add(child_of)
    for number in range(1, 5):
        step = child.begin(layout.STEP, "", number)
        ranks.trains(number, (20, 60))
        child.end(step)
    found = ranks.node.look()

    assert [one.key.iteration for one in found] == [2, 3, 4]
    assert {late(one.straggler) for one in found} == {(1, "reward")}
