"""Rows of rollouts in an open step: a flush and 30 seconds keep them, and the record of the step replaces them."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from process_support import Programs

BEGIN = """
import os, signal, time, otel_rl
def rollout(score):
    with otel_rl.rollout() as made:
        otel_rl.reward("right", score)
    return made
"""
#: As after 30 seconds, in less.
SOON = "from otel_rl.training import trajectories\ntrajectories.COPY_SECONDS = 0.2\n"
KILL = "os.kill(os.getpid(), signal.SIGKILL)\n"


def rows(programs: Programs) -> list[dict[str, object]]:
    done = programs.otel_rl("trajectories")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_flush_in_a_step_keeps_what_has_ended(programs: Programs) -> None:
    killed = programs.instrumented(
        BEGIN + "with otel_rl.step(1):\n    rollout(0.25); rollout(0.75)\n    otel_rl.flush(60)\n    " + KILL
    )

    assert killed.code == -signal.SIGKILL
    assert [row["scores"] for row in rows(programs)] == [{"right": 0.25}, {"right": 0.75}]
    assert [row["step"] for row in rows(programs)] == [1, 1]


def test_rows_leave_a_long_step(programs: Programs) -> None:
    killed = programs.instrumented(
        BEGIN + SOON + "import glob\n"
        "def written(): return any('\\n' in open(name).read() for name in glob.glob('otel-rl/*/*/logs-pending-*'))\n"
        "with otel_rl.step(1):\n    rollout(0.25)\n    while not written(): time.sleep(0.05)\n    " + KILL
    )

    assert killed.code == -signal.SIGKILL
    assert [row["scores"] for row in rows(programs)] == [{"right": 0.25}]


def test_record_of_the_step_has_all_and_counts_alone(programs: Programs) -> None:
    # What the program says of a rollout after the copy is in the record.
    done = programs.instrumented(
        BEGIN + "for number in (1, 2):\n    with otel_rl.step(number):\n"
        "        first = rollout(0.25); otel_rl.flush(60)\n"
        "        rollout(0.75); otel_rl.flush(60); rollout(1.0)\n"
        "        first.train(advantage=0.5)\n"
    )

    assert done.code == 0, done.err
    assert len(programs.store.events("rl.trajectories.pending")) == 4
    made = rows(programs)
    assert [row["scores"]["right"] for row in made] == [0.25, 0.75, 1.0] * 2
    assert [row.get("rl.rollout.advantage") for row in made] == [0.5, None, None] * 2
    report = json.loads(programs.otel_rl("report", "--json").out)["trajectories"]
    assert (report["started"], report["ended"]) == (6, 6)
    assert "trajectory_recorded" not in done.err


def test_sigterm_in_a_step_records_its_rows(programs: Programs) -> None:
    done = programs.instrumented(
        BEGIN + "with otel_rl.step(1):\n    rollout(0.25)\n    os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)\n"
    )

    assert done.code == -signal.SIGTERM
    assert [row["scores"] for row in rows(programs)] == [{"right": 0.25}]
    assert len(programs.store.events("rl.trajectories")) == 1


@pytest.mark.parametrize(("steps", "milliseconds"), [(300, 2), (120, 20)])
def test_rewards_of_short_steps_are_all_there(programs: Programs, steps: int, milliseconds: int) -> None:
    done = programs.instrumented(
        BEGIN + f"for number in range({steps}):\n    with otel_rl.step(number):\n"
        f"        rollout(number / {steps}); time.sleep({milliseconds / 1000})\n"
        "        otel_rl.metric('own', number)\n"
    )

    assert done.code == 0, done.err
    assert sorted(int(row["step"]) for row in rows(programs)) == list(range(steps))
    assert "dropped" not in done.err
