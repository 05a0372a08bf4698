"""Groups of samples in the report: advantages computed again, tokens that teach, and who is left to learn from."""

from __future__ import annotations

import json
import math
import statistics
import time

import pytest
from unit.report.synthetic_run import SECOND, process

from otel_rl.report import write_report
from otel_rl.report.core import human

REWARDS = [1.0, 0.0, 0.5, 0.25]


def grpo(rewards, divisor=None):
    mean = statistics.mean(rewards)
    return [(reward - mean) / (divisor or statistics.stdev(rewards) + 1e-4) for reward in rewards]


def body(rewards, advantages, group="g", **columns):
    return {
        "rl.rollout.id": [f"{group}-{place}" for place in range(len(rewards))],
        "rl.group.id": [group] * len(rewards),
        "rl.rollout.reward": rewards,
        "rl.rollout.advantage": advantages,
        **{f"rl.rollout.{name}": values for name, values in columns.items()},
    }


def record(step, *bodies, estimator="grpo", size=4, source="trainer", **attributes):
    joined = {
        key: [value for one in bodies for value in one.get(key, [None] * len(one["rl.rollout.id"]))]
        for key in {key: None for one in bodies for key in one}
    }
    given = {"rl.loop.iteration": step, "rl.advantage.estimator": estimator, "rl.group.size": size, **attributes}
    values = {"rl.trajectories.source": source, "rl.trajectories.started": len(joined["rl.rollout.id"])}
    return {**values, **{key: value for key, value in given.items() if value is not None}}, joined


def report(folder, *records):
    """``records`` of rank 0; one that is a list of them is of several ranks."""
    run = folder / "run-1"
    by_rank = (
        [[one[rank] for one in records] for rank in range(len(records[0]))] if isinstance(records[0], list) else None
    )
    for rank, given in enumerate(by_rank or [records]):
        writer = process(run, rank, world_size=len(by_rank or [0]), started=time.time_ns() - 60 * SECOND)
        for number, (attributes, columns) in enumerate(given):
            writer.event("rl.trajectories", 1.0 + number, columns, attributes)
        writer.write()
    written = write_report(run, folder / "page.html")
    page = written.output.read_text(encoding="utf-8")
    return json.loads(json.dumps(written.trajectories, allow_nan=False)), page, written.overview


def test_the_first_advantage_that_differs_is_named_with_what_it_should_be(tmp_path):
    right, wrong = grpo(REWARDS), grpo(REWARDS)
    wrong[2] += 0.5
    found, page, overview = report(
        tmp_path,
        record(3, body(REWARDS, wrong, "late")),
        record(1, body(REWARDS, right, "a"), body(REWARDS, right, "b")),
        record(2, body(REWARDS, right, "c"), body(REWARDS, wrong, "d")),
    )
    told = found["advantages"]
    assert (told["checked"], told["differing"], told["not_known"]) == (20, 2, 0)
    first = told["first"]
    assert (first["iteration"], first["group"], first["sample"], first["rank"]) == (2, "d", "d-2", 0)
    assert first["recorded"] == pytest.approx(first["computed"] + 0.5)
    [finding] = [one for one in overview.findings if one.code == "advantage_differs"]
    assert finding.onset == 2
    assert "from step 2 on: sample d-2 of rank 0, in group d" in finding.text
    assert "20 advantages computed again from the rewards, 2 differ" in page


@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo"])
def test_a_group_that_fits_another_formula_says_which(tmp_path, estimator):
    mean = statistics.mean(REWARDS)
    made = {
        "grpo": grpo(REWARDS),
        "dr_grpo": grpo(REWARDS, 1.0),
        "rloo": [(reward - mean) * 4 / 3 for reward in REWARDS],
    }
    told = "dr_grpo" if estimator == "grpo" else "grpo"
    found, _, _ = report(tmp_path, record(1, body(REWARDS, made[estimator]), estimator=told))
    assert found["advantages"]["first"]["fits"] == estimator
    found, _, _ = report(tmp_path / "right", record(1, body(REWARDS, made[estimator]), estimator=estimator))
    assert (found["advantages"]["differing"], found["advantages"]["checked"]) == (0, 4)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
def test_rounding_to_32_bit_is_no_difference(tmp_path, scale):
    torch = pytest.importorskip("torch")
    rewards = torch.tensor([0.1, 0.1, 0.1, 0.1000001]) * scale
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    found, _, _ = report(tmp_path, record(1, body([0.1 * scale] * 3 + [0.1000001 * scale], advantages.tolist())))
    assert (found["advantages"]["checked"], found["advantages"]["differing"]) == (4, 0)


def test_a_batch_is_all_groups_of_its_step_over_all_ranks(tmp_path):
    others = [3.0, 3.0, 1.0, 2.0]
    divisor = statistics.stdev(REWARDS + others) + 1e-4
    first, second = (record(1, body(each, grpo(each, divisor), name), estimator="grpo_batch") for each, name in
                     ((REWARDS, "a"), (others, "b")))  # fmt: skip
    found, _, _ = report(tmp_path, [first, second])
    assert (found["advantages"]["checked"], found["advantages"]["differing"]) == (8, 0)


def test_a_group_of_several_ranks_is_checked_as_a_whole_or_not_at_all(tmp_path):
    advantages = grpo(REWARDS)
    halves = [record(1, body(REWARDS[at : at + 2], advantages[at : at + 2])) for at in (0, 2)]
    found, _, _ = report(tmp_path, halves)
    assert (found["advantages"]["checked"], found["advantages"]["differing"]) == (4, 0)
    found, _, overview = report(tmp_path / "half", halves[0])
    assert (found["advantages"]["checked"], found["advantages"]["not_known"]) == (0, 2)
    assert _check(overview) == ("not_recorded", "their formula is not known")


@pytest.mark.parametrize(
    "one",
    [
        record(1, body(REWARDS, grpo(REWARDS)), estimator=None),
        record(1, body(REWARDS, grpo(REWARDS)), estimator="ppo"),
        record(1, body([*REWARDS[:3], None], grpo(REWARDS))),
        record(1, body(REWARDS, [*grpo(REWARDS)[:3], None])),
        record(1, body(REWARDS, grpo(REWARDS)), size=None),
        record(1, body([1.0, 0.5, 0.0, math.nan], [9.0] * 4)),
        record(1, body(REWARDS, ["x", True, [1], {}])),
    ],
)
def test_what_is_not_known_is_not_judged(tmp_path, one):
    found, _, overview = report(tmp_path, one)
    assert found["advantages"]["checked"] == found["advantages"]["differing"] == 0
    assert not [finding for finding in overview.findings if finding.code == "advantage_differs"]


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (record(1, body([None] * 4, grpo(REWARDS))), "rewards of the samples are not known"),
        (record(1, body(REWARDS, grpo(REWARDS), group=None)), "groups of the samples are not known"),
        (record(1, body(REWARDS, grpo(REWARDS)), estimator="ppo"), "their formula is not known"),
        (record(1, body(REWARDS, [None] * 4)), "none was recorded"),
    ],
)
def test_why_advantages_were_not_computed_again_is_said(tmp_path, one, reason):
    _, page, overview = report(tmp_path, one)
    is_none = reason == "none was recorded"
    assert _check(overview) == (
        ("does_not_apply", "no advantage was recorded") if is_none else ("not_recorded", reason)
    )
    said = f"The advantages were not computed again: {reason}."
    assert (said in page) is not is_none


def _check(overview):
    [check] = [one for one in overview.checks if one.what == "advantages that differ from the rewards"]
    return check.state, check.detail


def test_a_group_of_one_has_no_advantage(tmp_path):
    found, _, _ = report(tmp_path, record(1, body([1.0], [0.0]), size=1))
    assert (found["advantages"]["checked"], found["advantages"]["differing"]) == (1, 0)


def test_the_page_has_no_tokens_where_nothing_says_what_is_trained_on(tmp_path):
    _, page, _ = report(tmp_path, record(1, body(REWARDS, grpo(REWARDS), "b", output_tokens=[10, 20, 30, 40])))
    assert "Groups by step" in page
    assert "Tokens trained on" not in page


def test_effective_tokens_are_told_for_each_step(tmp_path):
    tokens = {"output_tokens": [10, 20, 30, 40], "trained": [True, True, True, False]}
    found, page, _ = report(
        tmp_path,
        record(1, body([1.0] * 4, [0.0] * 4, "dead", **tokens), body(REWARDS, grpo(REWARDS), "b", **tokens)),
        record(2, body([1.0, 0.5, 0.5, 0.0], [1.2, 0.0, 0.0, -1.2], "c", **tokens)),
    )
    assert (found["trained_tokens"], found["effective_tokens"]) == (180, 70)
    assert found["steps"] == [
        {"step": 1, "groups": 2, "dead_groups": 1, "trained_tokens": 120, "effective_tokens": 60},
        {"step": 2, "groups": 1, "dead_groups": 0, "trained_tokens": 60, "effective_tokens": 10},
    ]
    assert "Groups and tokens by step" in page
    share, tokens = human.percent(70 / 180), human.short_number(180)
    assert f"{share} of the {tokens} tokens that were trained on" in page


def test_samples_that_nobody_says_are_trained_on_have_no_tokens(tmp_path):
    found, page, _ = report(tmp_path, record(1, body(REWARDS, [None] * 4, output_tokens=[1, 2, 3, 4])))
    assert found["trained_tokens"] == 0
    assert "tokens that were trained on" not in page


def test_zeros_after_a_failure_say_what_they_do_to_the_others_of_their_group(tmp_path):
    rewards = [1.0, 0.0, 1.0, 0.0]
    marked = body(rewards, grpo(rewards), suspect=[None, True, None, None])
    found, page, _ = report(tmp_path, record(1, marked, body(rewards, grpo(rewards), "clean")))
    bias = found["bias"]
    assert (bias["samples"], bias["others_in_their_groups"]) == (1, 3)
    assert bias["advantage_of_others"] == pytest.approx(2 / 3 - 1 / 2)
    assert bias["mean_reward"] == 0.5
    assert bias["mean_reward_without"] == pytest.approx(4 / 7)
    assert "0.1667 higher on average" in page


def test_durations_are_told_by_outcome_and_the_quick_ones_that_are_left_are_named(tmp_path):
    columns = {
        "rl.rollout.id": [str(number) for number in range(40)],
        "rl.rollout.seconds": [1.0] * 20 + [9.0] * 20,
        "rl.rollout.status": ["finished"] * 20 + ["discarded"] * 12 + ["failed"] * 8,
        "rl.rollout.trained": [True] * 20 + [None] * 20,
    }
    found, page, _ = report(tmp_path, ({"rl.trajectories.source": "rollout", "rl.trajectories.started": 50}, columns))
    assert {outcome: one["number"] for outcome, one in found["durations"].items()} == {
        "trained": 20,
        "finished": 20,
        "discarded": 12,
        "failed": 8,
    }
    assert found["durations"]["discarded"]["median"] == pytest.approx(9.0, rel=0.1)
    assert "Durations by outcome" in page
    assert "what is learned from is what was quick" in page
    assert "Of 10 no end is recorded" in page


def test_outcomes_of_like_durations_are_no_reason_to_worry(tmp_path):
    columns = {
        "rl.rollout.id": [str(number) for number in range(40)],
        "rl.rollout.seconds": [1.0, 1.1] * 20,
        "rl.rollout.status": ["finished"] * 20 + ["discarded"] * 20,
    }
    _, page, _ = report(tmp_path, ({"rl.trajectories.source": "rollout"}, columns))
    assert "what was quick" not in page
