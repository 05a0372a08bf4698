"""What the watch publishes of the steps that it compared, and how often it looks."""

from __future__ import annotations

import gc

import pytest

from otel_rl.process import process_identity
from otel_rl.ranks.stragglers import watch
from otel_rl.ranks.stragglers.comparison import LateTogether, StepComparison
from otel_rl.ranks.stragglers.meetings import Place
from otel_rl.ranks.stragglers.timeline import StepKey
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events


class Node:
    """Gives the steps that a test has put there; each look costs as much as the test says."""

    def __init__(self) -> None:
        self.steps: list[StepComparison] = []
        self.cost, self.spent, self.now = 0.0, 0.0, 0.0
        #: What it was asked for: how many steps, and when.
        self.looks: list[tuple[int, float]] = []
        self.waits = {0: 0, 1: 0}

    def waited(self) -> dict[int, tuple[int, int]]:
        return {rank: (int(self.now * 1e9), waited) for rank, waited in self.waits.items()}

    def look(self, most: int) -> list[StepComparison]:
        self.looks.append((most, self.now))
        self.spent += self.cost
        found, self.steps = self.steps, []
        return found


@pytest.fixture
def looking(recorded, monkeypatch):
    node = Node()
    monkeypatch.setattr(watch, "NodeComparison", lambda _: node)
    monkeypatch.setattr(watch.own_cpu, "clock", lambda: round(node.spent * 1e9))
    monkeypatch.setattr(watch.time, "monotonic", lambda: node.now)
    monkeypatch.setattr(watch.flight, "ring", type("Ring", (), {"path": "x"})())
    return watch.Watch(), node


def late(iteration: int) -> StepComparison:
    place = Place("0\tundefined\t0-7", "train")
    ranks = LateTogether(place, "all_reduce", (3, 5), 8, 0.12, 0.02, (0.12, 0.1), ("reward", "sample"))
    return StepComparison(StepKey("", iteration), 0.5, 0.1, {"0\tundefined\t0-7": 0.11}, (ranks,))


def healthy(iteration: int) -> StepComparison:
    return StepComparison(StepKey("", iteration), 0.4, 0.0, {})


def test_a_straggler_that_lasts_is_an_event_and_its_end_another(looking, recorded):
    one, node = looking
    for steps in (
        [late(number) for number in range(1, 8)],
        [late(8)],
        [healthy(number) for number in range(9, 16)],
    ):
        node.steps = steps
        one.look()
        node.now += 1

    begun = {event.attributes[names.RL_STRAGGLER_RANK]: event for event in recorded.events()[:2]}
    over = recorded.events()[2:]
    assert {event.event_name for event in begun.values()} == {events.RL_STRAGGLER.name}
    assert {event.event_name for event in over} == {events.RL_STRAGGLER_END.name}
    assert {event.attributes[names.RL_STRAGGLER_RANK] for event in over} == set(begun) == {3, 5}
    assert {rank: event.attributes[names.RL_PHASE] for rank, event in begun.items()} == {3: "reward", 5: "sample"}
    assert {rank: tuple(event.attributes[names.RL_STRAGGLER_BESIDE]) for rank, event in begun.items()} == {
        3: (5,),
        5: (3,),
    }
    first = begun[3].attributes
    assert first[names.RL_STRAGGLER_LOST_SHARE] == pytest.approx(0.24)
    assert first[names.RL_STRAGGLER_LOST_TIME] == pytest.approx(0.12)
    assert first[names.RL_STRAGGLER_ALONE_LOST_TIME] == pytest.approx(0.02)
    assert first[names.RL_STRAGGLER_ALL_LOST_TIME] == pytest.approx(0.12)
    assert begun[5].attributes[names.RL_STRAGGLER_ALONE_LOST_TIME] == 0
    assert first[names.RL_STRAGGLER_FIRST_ITERATION] == 1
    assert first[names.TORCH_DISTRIBUTED_GROUP_NAME] == "0"
    assert all(event.attributes[names.RL_LOOP_ITERATION] == 8 for event in over)


def test_the_gauges_have_each_late_rank_over_the_last_steps_and_none_that_is_not(looking, recorded):
    one, node = looking
    node.steps = [healthy(number) for number in range(1, 9)] + [late(number) for number in range(9, 13)]
    one.look()
    assert dict(one._persistence.costs()) == {}
    node.steps = [late(number) for number in range(13, 25)]
    node.now += 1
    one.look()
    assert one._persistence.costs() == {3: pytest.approx((0.12, 0.24)), 5: pytest.approx((0.1, 0.2))}


def looks_of(one: watch.Watch, node: Node, seconds: int, late: int = 0) -> list[tuple[int, float]]:
    """The comparisons of so many seconds, in each of which rank 1 waits ``late`` ms for rank 0."""
    node.looks.clear()
    for _ in range(seconds):
        node.now += 1
        node.waits[1] += late * 1_000_000
        assert one.look() == watch.INTERVAL
    return node.looks


def test_while_all_ranks_wait_alike_a_few_steps_are_compared_and_rarely(looking):
    one, node = looking
    node.cost = 0.009
    looks = looks_of(one, node, 100)
    assert [most for most, _ in looks] == [watch.CALM_STEPS] * 4
    assert looks[1][1] - looks[0][1] == pytest.approx(node.cost / watch.CALM_SHARE)


def test_a_rank_that_waits_less_than_the_others_again_and_again_is_looked_at_at_once(looking):
    one, node = looking
    node.cost = 0.02
    looks_of(one, node, 10)
    looks = looks_of(one, node, 6, late=200)
    # The third time it is suspicious.
    assert looks == [(watch.MOST_STEPS, 13 + second) for second in range(4)]


def test_looks_at_a_rank_that_may_be_late_take_no_more_than_their_share_in_the_end(looking):
    one, node = looking
    node.cost = 0.02
    looks_of(one, node, 10)
    before = node.spent
    looks_of(one, node, 1000, late=200)
    assert node.spent - before == pytest.approx(1000 * watch.SHARE + watch.MOST_SAVED, abs=node.cost)


def test_the_end_of_a_straggler_is_looked_for_as_closely(looking):
    one, node = looking
    node.steps = [late(number) for number in range(1, 9)]
    assert looks_of(one, node, 3) == [(watch.CALM_STEPS, 1), (watch.MOST_STEPS, 2), (watch.MOST_STEPS, 3)]
    node.steps = [healthy(number) for number in range(9, 17)]
    node.cost = 0.009
    assert looks_of(one, node, 20) == [(watch.MOST_STEPS, 4)], "it is over"


def test_a_rank_that_is_late_for_long_leaves_time_for_the_next_one(looking):
    one, node = looking
    node.cost = 0.02
    node.steps = [late(number) for number in range(1, 9)]
    looks_of(one, node, 1000, late=200)
    # It is over, and soon another one may be late.
    node.steps = [healthy(number) for number in range(9, 17)]
    looks_of(one, node, 20)
    assert [now - 1020 for _, now in looks_of(one, node, 5, late=200)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("cost", "pause"), [(0.0001, watch.INTERVAL), (0.0015, 0.0015 / watch.CALM_SHARE), (0.1, watch.LONGEST)]
)
def test_a_node_with_many_ranks_is_asked_less_often(looking, monkeypatch, cost, pause):
    one, node = looking

    def waited() -> dict[int, tuple[int, int]]:
        node.spent += cost
        return {}

    monkeypatch.setattr(node, "waited", waited)
    pauses = []
    for _ in range(100):
        pauses.append(one.look())
        node.now += pauses[-1]
    assert pauses[-1] == pytest.approx(pause)


def test_the_first_search_for_rings_delays_no_look(looking, monkeypatch):
    one, node = looking
    costs = iter([0.015])

    def waited() -> dict[int, tuple[int, int]]:
        node.spent += next(costs, 0.0001)
        return {}

    monkeypatch.setattr(node, "waited", waited)
    assert [one.look() for _ in range(3)] == [watch.INTERVAL] * 3


def test_a_garbage_collection_of_the_program_stops_no_comparison(looking, monkeypatch):
    one, node = looking
    looks_of(one, node, 10)
    node.cost = 0.004
    looks_of(one, node, 5, late=200)
    look = node.look

    def collects(most: int) -> list[StepComparison]:
        node.spent += 0.3
        gc.collect()
        return look(most)

    monkeypatch.setattr(node, "look", collects)
    looks_of(one, node, 1, late=200)
    monkeypatch.setattr(node, "look", look)
    assert [most for most, _ in looks_of(one, node, 3, late=200)] == [watch.MOST_STEPS] * 3


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
    who = process_identity.ProcessIdentity(rank=rank, local_rank=local_rank, world_size=world_size)
    monkeypatch.setattr(watch.process_identity, "current", lambda: who)
    monkeypatch.setattr(watch.flight, "on", True)
    monkeypatch.setattr(watch.PeriodicThread, "start", lambda _: None)
    monkeypatch.setattr(watch.lifecycle, "before_shutdown", lambda _: None)
    monkeypatch.setattr(watch, "_watch", None)

    watch.start()

    assert (watch._watch is not None) is expected
