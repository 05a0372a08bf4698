"""The section on trajectories: what is counted, which rows are chosen, and what broken records cost."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import SECOND, process

from otel_rl.report import write_report
from otel_rl.report.core import human
from otel_rl.report.subjects.trajectories.pass_at_k import estimate
from otel_rl.report.subjects.trajectories.totals import OF_A_KIND, OF_ALL_PARTS

if TYPE_CHECKING:
    from pathlib import Path

Found = dict[str, Any]


def _report(folder: Path, records: list[tuple[dict[str, Any], Any]], *, ranks: int = 1) -> tuple[Found, str]:
    """``rl.trajectories`` of single processes, each with its attributes and its body."""
    run = folder / "run-1"
    for rank in range(ranks):
        writer = process(run, rank, world_size=ranks, started=time.time_ns() - 60 * SECOND)
        for number, (attributes, body) in enumerate(records):
            values = {"rl.trajectories.source": "trainer", "rl.trajectories.started": 0, **attributes}
            writer.event("rl.trajectories", 1.0 + number, body, values)
        writer.write()
    report = write_report(run, folder / "page.html")
    return json.loads(json.dumps(report.trajectories, allow_nan=False)), report.output.read_text(encoding="utf-8")


def _columns(**columns: list[Any]) -> dict[str, list[Any]]:
    return {f"rl.rollout.{name}": values for name, values in columns.items()}


def test_every_sample_is_counted_and_the_page_says_how_many_are_shown(tmp_path):
    steps = [
        (
            {"rl.loop.iteration": step, "rl.trajectories.started": 100},
            _columns(
                id=[f"{step}-{place}" for place in range(100)],
                reward=[place / 100 for place in range(100)],
                seconds=[step + place / 100 for place in range(100)],
                status=["failed" if place == 7 and step % 10 == 0 else "finished" for place in range(100)],
                trained=[place != 7 for place in range(100)],
            ),
        )
        for step in range(1, 101)
    ]
    found, page = _report(tmp_path, steps)

    assert (found["started"], found["ended"], found["trained"]) == (10_000, 10_000, 9_900)
    assert found["by_status"] == {"finished": 9_990, "failed": 10}
    rows = found["rows"]
    assert len(rows) <= 4 * OF_A_KIND + OF_ALL_PARTS
    assert f"{len(rows)} of 10,000 trajectories" in page
    ids = {row["rl.rollout.id"] for row in rows}
    assert {f"{step}-7" for step in range(10, 101, 10)} <= ids
    assert {f"100-{place}" for place in range(60, 100)} <= ids
    spread = sorted({row["step"] for row in rows if row["rl.rollout.status"] == "finished"})
    assert spread[0] == 1
    assert len(spread) > 40


def test_the_age_of_samples_is_split_into_time_in_flight_and_time_waiting(tmp_path):
    found, page = _report(tmp_path, [({}, _columns(seconds=[2.0] * 12, age=[12.0] * 11 + [24.0], trained=[True] * 12))])
    assert found["waited"]["median"] == pytest.approx(10, rel=0.05)
    assert "The trainer took samples 13 s after it had asked for them (mean): 2 s in flight, 11 s waiting." in page


def test_groups_that_lie_in_several_ranks_are_compared_as_wholes(tmp_path):
    body = {**_columns(reward=[1.0, 1.0, 0.0]), "rl.group.id": ["1-0", "1-1", "1-1"]}
    found, page = _report(tmp_path, [({"rl.loop.iteration": 1}, body)], ranks=2)
    assert (found["groups"], found["dead_groups"]) == (2, 1)
    assert "In 1 of 2 groups all rewards are equal" in page


def test_zero_rewards_after_a_failure_are_named_with_what_they_do_to_the_mean(tmp_path):
    body = _columns(reward=[1.0, 0.0, 1.0, 0.0], suspect=[None, True, None, None], tool_errors=[0, 1, 0, 0])
    found, page = _report(tmp_path, [({"rl.trajectories.started": 5}, body)])
    assert found["suspect"] == 1
    assert "the mean reward is 0.5 with them and 0.6667 without" in page
    assert "Of 1 no end is recorded" in page


def test_a_failure_value_of_its_own_is_left_out_of_the_mean(tmp_path):
    body = _columns(reward=[1.0, -1.0, 1.0, 0.0], suspect=[None, True, None, None], tool_errors=[0, 1, 0, 0])
    found, page = _report(tmp_path, [({}, body)])
    assert found["bias"]["mean_reward_without"] == 2 / 3
    assert "the mean reward is 0.25 with them and 0.6667 without" in page


def test_rewards_of_turns_weights_and_success_are_told(tmp_path):
    body = {
        **_columns(
            id=["a", "b"],
            reward=[1.5, 0.0],
            turn_rewards=[[0.5, None, 1.0], None],
            cumulative_rewards=[[0.5, 0.5, 1.5], None],
            success=[True, False],
        ),
        "rl.reward.names": ["step", "step/format"],
        "rl.reward.scores": [[1.5, 0.0], [0.25, 1.0]],
        "rl.reward.weights": [1.0, 0.0],
    }
    found, page = _report(tmp_path, [({}, body)])
    row = next(row for row in found["rows"] if row["rl.rollout.id"] == "a")
    assert row["rl.rollout.turn_rewards"] == [0.5, None, 1.0]
    assert row["rl.rollout.cumulative_rewards"] == [0.5, 0.5, 1.5]
    assert (row["scores"], row["weights"]) == ({"step": 1.5, "step/format": 0.25}, {"step/format": 0.0})
    assert found["succeeded"] == 1
    assert "1 of 2 succeeded" in page
    assert f"0.5 {human.UNKNOWN} 1" in page


def test_a_row_has_the_weights_of_its_own_scores(tmp_path):
    body = {
        **_columns(id=["a", "b"], reward=[1.0, 2.0]),
        "rl.reward.names": ["x", "y", "z"],
        "rl.reward.scores": [[1.0, None], [None, 2.0], [0.0, 1.0]],
        "rl.reward.weights": [0.5, 2.0, None],
    }
    found, _ = _report(tmp_path, [({}, body)])
    weights = {row["rl.rollout.id"]: row["weights"] for row in found["rows"]}
    assert weights == {"a": {"x": 0.5, "z": None}, "b": {"y": 2.0, "z": None}}


def test_problems_solved_by_one_of_several_samples_are_told_apart_for_training_and_evaluation(tmp_path):
    body = {
        **_columns(
            success=[True, False, False, False, False, False, None, True, True, True],
            evaluation=[None] * 8 + [True] * 2,
        ),
        # Of the second group three of four say it; the third has one sample, and the last is an evaluation.
        "rl.group.id": ["a", "a", "a", "b", "b", "b", "b", "c", "d", "d"],
    }
    found, page = _report(tmp_path, [({"rl.loop.iteration": 1}, body)])
    assert found["pass_at_k"] == {"groups": 2, "k": 3, "at_1": pytest.approx(1 / 6), "at_k": 0.5}
    assert found["evaluation_pass_at_k"] == {"groups": 1, "k": 2, "at_1": 1.0, "at_k": 1.0}
    assert "pass@1 17 %, pass@3 50 %, by 2 groups of 3 or more samples" in page
    assert "In evaluations: pass@1 100 %, pass@2 100 %, by 1 group" in page


def test_a_rollout_that_failed_has_not_solved_its_problem_though_only_the_others_say_whether_they_did(tmp_path):
    body = {
        **_columns(success=[True, False, None], status=["finished", "finished", "failed"]),
        "rl.group.id": ["a"] * 3,
    }
    found, _ = _report(tmp_path, [({"rl.loop.iteration": 1}, body)])
    assert found["pass_at_k"] == {"groups": 1, "k": 3, "at_1": pytest.approx(1 / 3), "at_k": 1.0}


def test_of_a_program_that_records_successes_only_no_pass_at_k_is_said(tmp_path):
    body = {**_columns(success=[True, True, None, True, True, None]), "rl.group.id": ["a"] * 3 + ["b"] * 3}
    _, page = _report(tmp_path, [({"rl.loop.iteration": 1}, body)])
    assert "Success was recorded for 4 of 6, and no failure" in page
    assert "pass@" not in page


@pytest.mark.parametrize(("k", "chance"), [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)])
def test_the_chance_of_a_success_among_k_samples_has_no_bias(k, chance):
    assert estimate([(4, 1, 2)], k) == pytest.approx(chance)


def test_a_trajectory_leads_to_the_spans_of_its_trace(tmp_path):
    run = tmp_path / "run-1"
    writer = process(run, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    rollout = writer.span("rl.rollout", 1.0, 3.0, {"rl.rollout.id": "r"})
    writer.span("execute_tool search", 1.5, 2.0, {"gen_ai.operation.name": "execute_tool"}, rollout, error="timeout")
    trace = f"{rollout.trace_id:032x}"
    body = _columns(id=["r", "s"], trace_id=[trace, "f" * 32], status=["failed", "finished"])
    writer.event("rl.trajectories", 4.0, body, {"rl.trajectories.source": "rollout", "rl.trajectories.started": 2})
    writer.write()
    page = write_report(run, tmp_path / "page.html").output.read_text(encoding="utf-8")

    assert f'<a href="#spans-{trace}">' in page
    assert f'<details id="spans-{trace}">' in page
    assert "2. execute_tool search  [timeout]" in page
    assert f"#spans-{'f' * 32}" not in page


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        {},
        {"rl.rollout.id": "no list"},
        {"rl.rollout.id": [], "rl.rollout.reward": [None, "x", float("nan"), float("inf")]},
        {"rl.rollout.reward": [True, {"a": 1}, [1]], "rl.reward.names": ["a"], "rl.reward.scores": [1, 2]},
        {"rl.rollout.turn_rewards": [[float("nan"), [1], "x"], 1, []], "rl.reward.weights": [1, None]},
        {"rl.rollout.id": ["<script>alert(1)</script>"], "rl.rollout.status": ["<b>"], "rl.reward.names": None},
    ],
)
def test_records_that_are_broken_or_hostile_do_no_harm(tmp_path, body):
    found, page = _report(tmp_path, [({"rl.trajectories.started": "many"}, body)])
    assert found["started"] == 0
    assert "<script>alert" not in page
    assert "<b>&lt;" not in page


def test_columns_that_no_row_fills_are_not_shown(tmp_path):
    _, page = _report(tmp_path, [({}, _columns(id=["1-0"], reward=[0.5]))])
    assert 'aria-label="Filter by Reward"' in page
    assert 'aria-label="Filter by Tool calls"' not in page


def test_a_run_without_records_says_what_would_fill_the_section(tmp_path):
    found, page = _report(tmp_path, [])
    assert found["rows"] == []
    assert "Samples come from TRL" in page


def test_tokens_of_judges_and_of_tools_are_told_apart(tmp_path):
    body = _columns(
        id=["a", "b"],
        turns=[2, 3],
        output_tokens=[14, 21],
        judge_calls=[1, 2],
        judge_errors=[0, 1],
        judge_input_tokens=[11, None],
        judge_output_tokens=[7, 8],
        tool_model_calls=[None, 1],
        tool_model_output_tokens=[None, 5],
    )
    found, page = _report(tmp_path, [({"rl.trajectories.started": 2}, body)])
    assert found["judge"] == {"calls": 3, "errors": 1, "input_tokens": 11, "output_tokens": 15}
    assert found["tool_model"] == {"calls": 1, "errors": 0, "input_tokens": 0, "output_tokens": 5}
    assert "Judges were asked 3 times (1 failed), 11 input and 15 output tokens: no turns" in page
    assert "Tools asked models 1 time, 0 input and 5 output tokens: no turns" in page
    assert "Judge output tokens" in page


def test_without_judges_nothing_is_said_of_them(tmp_path):
    found, page = _report(tmp_path, [({"rl.trajectories.started": 1}, _columns(id=["a"], turns=[1]))])
    assert (found["judge"], found["tool_model"]) == (None, None)
    assert "Judge" not in page.split("Trajectories")[-1]


def test_failures_of_tools_that_only_messages_show_are_unknown_and_not_0(tmp_path):
    columns = _columns(id=["a", "b"], status=["finished"] * 2, tool_calls=[3, 4], tool_errors=[None, 1])
    _, page = _report(tmp_path, [({}, columns)])
    assert [cell in page for cell in (">unknown<", ">3<", ">4<", ">1<")] == [True] * 4
