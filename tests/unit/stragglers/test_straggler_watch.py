"""What the watch publishes of the steps that it compared, and how often it looks."""

from __future__ import annotations

import pytest

from otel_rl.process import process_identity
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.stragglers import watch
from otel_rl.stragglers.comparison import Comparison, Straggler
from otel_rl.stragglers.timeline import StepKey


class Node:
    """Gives the steps that a test has put there; each look costs as much as the test says."""

    def __init__(self) -> None:
        self.steps: list[Comparison] = []
        self.cost, self.spent = 0.0, 0.0

    def look(self) -> list[Comparison]:
        self.spent += self.cost
        found, self.steps = self.steps, []
        return found


@pytest.fixture
def looking(recorded, monkeypatch):
    node = Node()
    monkeypatch.setattr(watch, "Node", lambda _: node)
    monkeypatch.setattr(watch.time, "thread_time", lambda: node.spent)
    monkeypatch.setattr(watch.flight, "ring", type("Ring", (), {"path": "x"})())
    return watch.Watch(), node


def late(iteration: int) -> Comparison:
    straggler = Straggler(3, 0.1, "all_reduce", "0\tundefined\t0-7", "reward")
    return Comparison(StepKey("", iteration), 0.5, 0.1, {"0\tundefined\t0-7": 0.11}, straggler)


def healthy(iteration: int) -> Comparison:
    return Comparison(StepKey("", iteration), 0.4, 0.0, {}, None)


def test_a_straggler_that_lasts_is_an_event_and_its_end_another(looking, recorded):
    one, node = looking
    for steps in (
        [late(number) for number in range(1, 8)],
        [late(8)],
        [healthy(number) for number in range(9, 16)],
    ):
        node.steps = steps
        one.look()

    begin, end = recorded.events()
    assert (begin.event_name, end.event_name) == (events.RL_STRAGGLER.name, events.RL_STRAGGLER_END.name)
    assert begin.attributes[names.RL_STRAGGLER_RANK] == 3
    assert begin.attributes[names.RL_PHASE] == "reward"
    assert begin.attributes[names.RL_STRAGGLER_LOST_SHARE] == pytest.approx(0.2)
    assert begin.attributes[names.RL_STRAGGLER_FIRST_ITERATION] == 1
    assert begin.attributes[names.TORCH_DISTRIBUTED_GROUP_NAME] == "0"
    assert end.attributes[names.RL_LOOP_ITERATION] == 13


def test_the_dearer_a_look_is_the_rarer_it_becomes(looking):
    one, node = looking
    assert one.look() == watch.INTERVAL
    node.cost = 0.02
    assert one.look() == pytest.approx(0.02 / watch.SHARE)


def test_without_a_ring_nothing_is_looked_at(looking, monkeypatch):
    one, node = looking
    node.cost = 1.0
    monkeypatch.setattr(watch.flight, "ring", None)
    assert one.look() == watch.INTERVAL
    assert node.spent == 0


@pytest.mark.parametrize(
    ("rank", "local_rank", "world_size", "expected"),
    [(0, 0, 2, True), (4, 0, 8, True), (1, 1, 2, False), (0, None, 2, True), (1, None, 2, False), (0, 0, 1, False)],
)
def test_the_first_process_of_a_node_compares_and_only_among_several(
    rank, local_rank, world_size, expected, monkeypatch
):
    who = process_identity.Run(rank=rank, local_rank=local_rank, world_size=world_size)
    monkeypatch.setattr(watch.process_identity, "current", lambda: who)
    monkeypatch.setattr(watch.flight, "on", True)
    monkeypatch.setattr(watch.PeriodicThread, "start", lambda _: None)
    monkeypatch.setattr(watch.lifecycle, "before_shutdown", lambda _: None)
    monkeypatch.setattr(watch, "_watch", None)

    watch.start()

    assert (watch._watch is not None) is expected
