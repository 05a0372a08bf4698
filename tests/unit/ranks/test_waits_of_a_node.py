"""Which rings a node's first rank compares, and what it reads of them."""

from __future__ import annotations

import pytest

from otel_rl.flight_recorder.ring import Ring, create
from otel_rl.ranks.stragglers import node as node_module
from otel_rl.ranks.stragglers.node import FIRST_SEARCH, NodeComparison

RANKS = 3


class Folder:
    """Rings of ranks of one run in a folder, and a clock."""

    def __init__(self, path) -> None:
        self.path, self.now = path, 0.0
        self.rings: list[Ring] = []

    def add(self, rank: int, run: str = "run", waited: int = 1) -> Ring:
        """One that has ended a step."""
        ring = create(self.path, f"otel-rl-{run}-host-rank{rank}-{len(self.rings)}")
        ring.identify(run, "0.0.0", "host", (rank, RANKS, rank))
        ring.step_over(waited)
        self.rings.append(ring)
        return ring


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    monkeypatch.setattr(node_module.time, "monotonic", lambda: folder.now)
    yield folder
    for ring in folder.rings:
        ring.places.stop()


def test_ranks_that_begin_later_are_found_soon(folder):
    node = NodeComparison(folder.add(0).path)
    assert set(node.waited()) == {0}

    folder.add(1)
    folder.add(2, run="another-run")
    folder.now += FIRST_SEARCH
    assert set(node.waited()) == {0, 1}

    folder.add(2)
    folder.now += FIRST_SEARCH
    assert set(node.waited()) == {0, 1, 2}


def test_how_long_a_rank_has_waited_stands_in_its_ring(folder):
    own = folder.add(0, waited=123)
    node = NodeComparison(own.path)
    before, waited = node.waited()[0]
    assert waited == 123

    own.step_over(456)
    moment, waited = node.waited()[0]
    assert moment > before
    assert waited == 456


def test_a_child_with_the_rank_of_its_parent_does_not_stand_in_for_it(folder):
    node = NodeComparison(folder.add(0).path)
    folder.add(1, waited=789)
    folder.add(1, waited=0)
    folder.now += FIRST_SEARCH
    assert node.waited()[1][1] == 789


def test_a_rank_that_has_ended_no_step_is_left_out(folder):
    node = NodeComparison(folder.add(0).path)
    ring = create(folder.path, "otel-rl-run-host-rank1")
    ring.identify("run", "0.0.0", "host", (1, RANKS, 1))
    folder.rings.append(ring)
    folder.now += FIRST_SEARCH
    assert set(node.waited()) == {0}


def test_a_rank_whose_ring_is_gone_is_left_out(folder):
    node = NodeComparison(folder.add(0).path)
    other = folder.add(1)
    folder.now += FIRST_SEARCH
    assert set(node.waited()) == {0, 1}
    other.path.unlink()
    assert set(node.waited()) == {0}
