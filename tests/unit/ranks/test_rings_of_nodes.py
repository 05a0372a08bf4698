"""Rings of several nodes: moments of one clock, and the rank that costs the others most."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_ranks import Program, run

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import Event, RingSnapshot
from otel_rl.process.lifetime import Lifetime
from otel_rl.ranks.stragglers.run import compare_rings

STEPS = 8
#: The second node has booted long before, and its wall clock is wrong by 3 s.
SHIFT, WALL = 7 * 3600 * 10**9, 3 * 10**9


def rings(late: int | None, nodes: int = 2, drift: float = 0.0, phase: str = "reward") -> list[RingSnapshot]:
    """Return the rings of four ranks, two on each node, that ran :data:`STEPS` steps; ``late`` takes 40 ms longer."""
    found = [_ring(rank, rank // 2 if nodes == 2 else 0) for rank in range(4)]
    began: dict[int, int] = dict.fromkeys(range(4), 0)
    for iteration in range(STEPS):
        first = iteration * 6
        steps = run({rank: _program(rank == late, first, phase) for rank in range(4)}, 0.5, began)
        for rank, step in steps.items():
            _write(found[rank], step, iteration, drift)
            began[rank] = step.ended
    return found


def _program(late: bool, first: int, phase: str) -> Program:
    program = Program().work(40, "sample").work(41 if late else 1, phase)
    for number in range(first + 1, first + 7):
        program.work(5).all_reduce(number)
    return program


def _ring(rank: int, node: int) -> RingSnapshot:
    return RingSnapshot(
        path=Path(f"{rank}.ring"),
        lifetime=Lifetime(f"boot{node}", 100 + rank, 1, 1),
        run_id="run",
        attempt="0.0.0",
        host=f"node{node}",
        rank=rank,
        world_size=4,
        local_rank=rank % 2,
        clocks=(node * SHIFT, 1_700_000_000 * 10**9 + node * WALL),
        heartbeat=0,
        ended=0,
        end_reason="",
        last_step=(0, 0),
    )


def _write(ring: RingSnapshot, step, iteration: int, drift: float) -> None:
    def moment(one: int) -> int:
        return round(one * (1 + drift)) + SHIFT if ring.host == "node1" else one

    def add(kind: int, name: str, began: int, ended: int, group: str = "", number: int = 0, argument: int = 0) -> None:
        ring.records.append(Event(kind, layout.DONE, name, moment(ended), moment(began), argument, group, number, True))

    for collective, launched in step.launches.items():
        add(layout.COLLECTIVE, "all_reduce", launched, launched + 1000, collective.group, collective.number)
    for wait in step.waits:
        add(layout.WAIT, "all_reduce", wait.began, wait.ended, wait.collective.group, wait.collective.number)
    for phase in step.phases:
        add(layout.PHASE, phase.name, phase.began, phase.ended)
    add(layout.STEP, "", step.began, step.ended, argument=iteration)
    ring.records.sort(key=lambda event: event.moment)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("late", [0, 3])
def test_the_late_rank_is_found_whatever_the_clocks_of_the_nodes_say(nodes, late):
    found = compare_rings(rings(late, nodes))

    assert found is not None
    cost = found.costs()[0]
    # The first step of a ring has no predecessor.
    assert (cost.rank, cost.steps, cost.phase, cost.operation) == (late, STEPS - 1, "reward", "all_reduce")
    assert cost.lost == pytest.approx(0.040, abs=0.002)
    assert cost.share == pytest.approx(0.040 / 0.114, abs=0.05)


def test_the_offset_of_the_second_node_is_found_from_what_the_ranks_ended_together():
    found = compare_rings(rings(None))

    assert found is not None
    [(node, offset)] = found.offsets.items()
    assert node.host == "node1"
    assert offset.ns == pytest.approx(-SHIFT, abs=10_000)
    assert offset.error is not None
    assert offset.error < 10_000
    assert not [cost for cost in found.costs() if cost.share > 0.02]


def test_clocks_that_drift_apart_by_50_millionths_do_not_make_a_straggler():
    found = compare_rings(rings(None, drift=50e-6))

    assert found is not None
    assert not [cost for cost in found.costs() if cost.share > 0.02]


def test_with_too_few_common_ends_the_wall_clocks_are_taken_and_the_error_is_not_known():
    of_run = rings(None)
    for ring in of_run:
        ring.records = [event for event in ring.records if event.kind != layout.WAIT]

    found = compare_rings(of_run)

    assert found is not None
    [offset] = found.offsets.values()
    assert offset == (WALL - SHIFT, None)


def test_ranks_that_share_no_step_are_not_compared():
    of_run = rings(None)
    for event in list(of_run[1].records):
        if event.kind == layout.STEP:
            of_run[1].records.remove(event)

    assert compare_rings(of_run) is None
    assert compare_rings(of_run[:1]) is None
