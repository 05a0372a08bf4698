"""Calls that run at once cost a step or a rollout the time in which at least one of them was open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, context, examined
from unit.report.synthetic_run import process

from otel_rl.report.core.collected import Collected
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects import load
from otel_rl.report.subjects.calls import lines
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.report.core.finding import Finding

AT_ONCE = ", in calls that run at once"
STEPS = 40


def _judged(
    writer: ProcessWriter, at: float, seconds: float, number: int, values: dict[str, Any], apart: float
) -> None:
    """Calls of a judge, each ``apart`` s after the one before, and of two functions that take a millisecond."""
    for index in range(number):
        begin = at + index * apart
        writer.span("rl.reward", begin, begin + seconds, {**values, "rl.reward.name": "judge"})
    for name in ("fmt", "length"):
        writer.span("rl.reward", at, at + 0.001, {**values, "rl.reward.name": name})


def _steps(
    run: Path, seconds: Callable[[int], float], *, number: int = 16, length: float = 1.0, apart: float = 0.0
) -> None:
    writer = process(run, 0, started=STARTED)
    for step in range(1, STEPS + 1):
        at, values = 1.0 + step * length, {"rl.loop.iteration": step}
        _judged(writer, at, seconds(step), number, values, apart)
        writer.span("rl.rank.step", at, at + length, values)
    writer.write()


def _of(run: Path, code: str) -> Finding:
    [one] = [found for found in examined(run).findings if found.code == code]
    return one


def test_judges_at_once_cost_the_step_the_time_of_one(tmp_path: Path) -> None:
    _steps(tmp_path / "run", lambda _: 0.2)
    one = _of(tmp_path / "run", "slow_reward")
    assert one.text.startswith("Reward function judge takes 200 ms a call, 200 times as long as ")
    assert one.text.endswith(f": 20 % of the steps' time{AT_ONCE}.")
    assert one.cost == pytest.approx(0.199, abs=0.001)


def test_judges_at_once_that_take_little_of_the_step_are_no_finding(tmp_path: Path) -> None:
    _steps(tmp_path / "run", lambda _: 0.05)
    assert [one.code for one in examined(tmp_path / "run").findings if one.section == "rewards"] == []


def test_judges_one_after_the_other_cost_the_step_their_sum(tmp_path: Path) -> None:
    _steps(tmp_path / "run", lambda _: 0.05, apart=0.05)
    one = _of(tmp_path / "run", "slow_reward")
    assert one.cost == pytest.approx(0.8 * 49 / 50, abs=0.001)
    assert one.text.endswith(" of the steps' time.")


def test_judges_that_overlap_in_part_cost_what_they_cover(tmp_path: Path) -> None:
    _steps(tmp_path / "run", lambda _: 0.2, number=4, apart=0.1)
    assert _of(tmp_path / "run", "slow_reward").cost == pytest.approx(0.5 * 199 / 200, abs=0.001)


def test_judges_at_once_that_become_slower_are_graded_by_the_time_that_the_step_loses(tmp_path: Path) -> None:
    _steps(tmp_path / "run", lambda step: 0.05 if step < 20 else 0.25)
    one = _of(tmp_path / "run", "slower_reward")
    assert "Reward function judge takes 250 ms since step 20 (50 ms before): " in one.text
    assert one.text.endswith(f"20 % of the step{AT_ONCE}.")
    assert (one.severity, one.cost) == ("warning", pytest.approx(0.2, abs=0.001))


def test_functions_at_once_are_time_of_the_step_once_and_the_parts_add_up_to_it(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, started=STARTED)
    for step in range(1, STEPS + 1):
        own, values = context("step", step), {"rl.loop.iteration": step}
        for _ in range(16):
            writer.span(
                "rl.reward", step, step + 0.25, {**values, "rl.phase": "reward", "rl.reward.name": "judge"}, own
            )
        writer.ids.trace, writer.ids.span = own.trace_id, own.span_id
        writer.span("rl.rank.step", step, step + 1, values)
    writer.write()
    steps = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None).steps
    seconds = {phase: line.total for phase, line in steps.phases.items()}
    assert seconds == {"reward": STEPS * 0.25, UNCOVERED: STEPS * 0.75}


def _chats(run: Path, instance: int, seconds: Callable[[int], float], *, number: int = 16) -> None:
    writer = process(
        run, None, started=STARTED, process__pid=5000 + instance, service__instance__id=f"worker-{instance}"
    )
    for second in range(60):
        for _ in range(number):
            values = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "judge-1"}
            writer.span("chat judge-1", second, second + seconds(second), values)
    writer.write()


def _slower_judge(second: int) -> float:
    return 0.1 if second < 30 else 0.3


def test_model_calls_at_once_outside_of_steps_cost_the_time_of_one(tmp_path: Path) -> None:
    _chats(tmp_path / "run", 0, _slower_judge)
    one = _of(tmp_path / "run", "slower_model")
    assert "The duration of calls of model judge-1 rose from 100 ms to 300 ms since " in one.text
    assert one.text.endswith(f": 20 % of the time{AT_ONCE}.")
    assert (one.severity, one.cost) == ("warning", pytest.approx(0.2, abs=0.02))


def test_model_calls_of_several_processes_at_once_cost_the_time_of_one(tmp_path: Path) -> None:
    for instance in range(4):
        _chats(tmp_path / "run", instance, _slower_judge, number=2)
    one = _of(tmp_path / "run", "slower_model")
    assert one.cost == pytest.approx(0.2, abs=0.02)
    assert one.text.endswith(f": 20 % of the time{AT_ONCE}.")


def test_tools_that_rollouts_call_at_once_cost_each_rollout_the_time_of_one(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", None, started=STARTED)
    for number in range(12):
        # All rollouts run beside each other, too: their times are added up.
        at, root = 1.0 + number // 4, context("rollout", number)
        identity = {"rl.rollout.id": f"{number}"}
        for name, seconds in (("search", 0.2), ("lookup", 0.001), ("calculator", 0.001)):
            for _ in range(8):
                called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
                writer.span(f"execute_tool {name}", at, at + seconds, {**identity, **called}, root)
        writer.ids.trace, writer.ids.span = root.trace_id, root.span_id
        writer.span("rl.rollout", at, at + 1, identity)
    writer.write()
    one = _of(tmp_path / "run", "slow_tool")
    assert one.cost == pytest.approx(0.199, abs=0.001)
    assert one.text.endswith(f": 20 % of the rollouts' time{AT_ONCE}.")


def test_rollouts_at_once_that_share_an_id_each_take_their_own_time(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", None, started=STARTED)
    for number in range(16):
        # The samples of a group run beside each other, and have the id of their task.
        root, identity = context("rollout", number), {"rl.rollout.id": "task"}
        for name, seconds in (("browse", 0.6), ("search", 0.002), ("calculator", 0.002)):
            called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            writer.span(f"execute_tool {name}", 1, 1 + seconds, {**identity, **called}, root)
        writer.ids.trace, writer.ids.span = root.trace_id, root.span_id
        writer.span("rl.rollout", 1, 2, identity)
    writer.write()
    one = _of(tmp_path / "run", "slow_tool")
    assert one.cost == pytest.approx(0.598, abs=0.001)
    assert one.text.endswith(": 60 % of the rollouts' time.")


@pytest.mark.parametrize("first_chunk", [float("nan"), float("inf"), 1e300, -1.0, True])
def test_a_time_to_the_first_chunk_that_is_none_is_left_out(tmp_path: Path, first_chunk: float) -> None:
    writer = process(tmp_path / "run", None, started=STARTED)
    called = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "judge-1"}
    for second, told in enumerate((0.25, first_chunk)):
        values = {**called, "gen_ai.response.time_to_first_chunk": told}
        writer.span("chat judge-1", second, second + 0.5, values)
    writer.write()
    collected = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None)
    [line] = lines.of_calls(collected, "first_chunk").values()
    assert list(line.totals) == [0.25]
