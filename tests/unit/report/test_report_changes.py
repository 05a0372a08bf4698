"""What changed in values, came and went, or differs from its siblings: the cause first, and no false alarm."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, Job, Part, examined, rollout
from unit.report.synthetic_run import process

from otel_rl.report.core import output
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.kept_answers import EarlierLooks
from otel_rl.report.subjects import load, overview
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from otel_rl.report.core.finding import Finding

STEPS = 48


@dataclass
class Loop:
    """A loop of one process: lengths, attributes and logged values by step, which all vary a little."""

    folder: Path
    seconds: Callable[[int], float] = lambda _step: 0.5
    attributes: Callable[[int], dict[str, Any]] = lambda _step: {}
    logged: Callable[[int], dict[str, float]] = lambda _step: {}
    rollouts: Callable[[int], Iterable[list[Part]]] = lambda _step: ()
    samples: Callable[[int], dict[str, list[Any]]] = lambda _step: {}
    dice: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - repeatable

    def near(self, value: float, by: float = 0.05) -> float:
        """A value close to another one."""
        return value * self.dice.uniform(1 - by, 1 + by)

    def findings(self) -> list[Finding]:
        """What the report finds in it."""
        writer, at = process(self.folder / "run", 0, world_size=1, started=STARTED), 1.0
        for step in range(1, STEPS + 1):
            length, begin = self.near(self.seconds(step)), at
            values = {"rl.loop.iteration": step}
            for number, parts in enumerate(self.rollouts(step)):
                at = rollout(writer, step, number, at, parts)
            at = max(at, begin + length)
            writer.span("rl.rank.step", begin, at, {**values, "rl.loop.source": "given", **self.attributes(step)})
            told = {**values, "rl.step.first": step, "rl.step.last": step}
            if logged := self.logged(step):
                writer.event("rl.step", at, logged, told)
            if samples := self.samples(step):
                source = {"rl.trajectories.source": "rollout", "rl.trajectories.started": 0}
                writer.event("rl.trajectories", at, samples, {**values, **source})
        writer.ended = writer.at(at)
        writer.write()
        return examined(self.folder / "run").findings


def _texts(findings: list[Finding]) -> list[str]:
    return [one.text for one in findings if one.severity != "notice"]


def _all(findings: list[Finding]) -> list[Finding]:
    return [one for finding in findings for one in (finding, *finding.symptoms)]


# -- values ------------------------------------------------------------------------------------------------------------


def test_a_score_from_a_cache_is_the_finding_and_what_follows_stands_below_it(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def logged(step: int) -> dict[str, float]:
        judge = 0.531 if step >= 25 else loop.near(0.55, 0.2)
        spread = 0.02 if step >= 25 else 0.3
        return {"rewards/judge/mean": judge, "reward": judge + loop.near(0.5), "reward_std": loop.near(spread)}

    loop.logged = logged
    [one] = loop.findings()
    assert one.text.startswith("rewards/judge/mean is exactly 0.531 since step 25; it was 0.4")
    assert (one.severity, one.onset, one.subject) == ("warning", 25, "rewards/judge/mean")
    [symptom] = one.symptoms
    assert symptom.text.startswith("reward_std fell from 0.3")
    assert symptom.text.endswith(" at step 25.")


def test_a_score_that_was_learned_to_its_best_is_no_finding(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"rewards/format/mean": min(1.0, 0.2 + 0.03 * step + loop.dice.uniform(0, 0.05))}
    assert loop.findings() == []


@pytest.mark.parametrize("worse", [True, False])
def test_an_evaluation_that_gets_worse_while_the_training_gets_better_is_said(tmp_path: Path, *, worse: bool) -> None:
    loop = Loop(tmp_path)

    def logged(step: int) -> dict[str, float]:
        evaluated = {"eval_loss": loop.near(1.5 + 0.03 * max(step - 15, 0) if worse else 1.5, 0.02)}
        return {"train_loss": loop.near(2 * 0.97**step + 0.2), **(evaluated if step % 2 == 0 else {})}

    loop.logged = logged
    texts = _texts(loop.findings())
    assert bool(texts) == worse
    parts = r"eval_loss parts from train_loss between steps \d+ and \d+: \S+ worse at the end "
    assert all(re.match(parts, text) for text in texts)


def test_a_schedule_that_steps_is_no_warning(tmp_path: Path) -> None:
    loop = Loop(tmp_path, logged=lambda step: {"train/learning_rate": 1e-4 if step < 25 else 1e-5})
    assert _texts(loop.findings()) == []


@pytest.mark.parametrize("key", ["epoch", "num_tokens", "step_time", "perf/mfu"])
def test_counts_and_times_are_no_curves(tmp_path: Path, key: str) -> None:
    assert Loop(tmp_path, logged=lambda step: {key: 1.0 if step < 25 else 40.0}).findings() == []


def test_a_value_of_the_program_that_no_rule_knows_is_said_when_it_jumps(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"batch/filtered": loop.near(3 if step < 30 else 14)}
    [one] = loop.findings()
    assert one.text.startswith("batch/filtered rose from 3")
    assert one.text.endswith(" at step 30.")
    assert one.severity == "notice", "what it means nobody knows"


@pytest.mark.parametrize("key", ["curriculum/stage", "data/seq_len", "train/batch_size", "max_tokens"])
def test_what_the_program_sets_is_a_notice(tmp_path: Path, key: str) -> None:
    assert _texts(Loop(tmp_path, logged=lambda step: {key: 2.0 if step < 25 else 4.0}).findings()) == []


def test_a_score_that_gets_better_behind_a_prefix_is_no_warning(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"train/rewards/format/mean": loop.near(0.1 if step < 20 else 0.9)}
    assert _texts(loop.findings()) == []


@pytest.mark.parametrize("key", ["tokens_seen", "train/input_tokens", "rollout/num_calls"])
def test_a_count_that_goes_up_is_no_growth_and_excuses_no_slower_phase(tmp_path: Path, key: str) -> None:
    job = Job(tmp_path / "run", lambda step, _: {"sample": 1.0 if step < 20 else 3.0, "train": 0.2}, ranks=1)
    job.logged = lambda step: {key: 1000.0 * step}
    [one] = examined(job.write()).findings
    assert (one.code, one.severity) == ("slower_phase", "critical")


@pytest.mark.parametrize("phase", ["checkpoint", "sync", "data_wait"])
def test_longer_answers_excuse_no_phase_that_does_not_depend_on_them(tmp_path: Path, phase: str) -> None:
    job = Job(tmp_path / "run", lambda step, _: {phase: 1.0 if step < 20 else 3.0, "train": 0.2}, ranks=1)
    job.logged = lambda step: {"completions/mean_length": 100.0 + step % 3 if step < 20 else 200.0 + step % 3}
    assert any(one.gravest == "critical" for one in examined(job.write()).findings)


def test_memory_that_grows_with_each_step_is_said_with_how_much_it_is(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.attributes = lambda step: {"rl.loop.memory": 2**29 + 6 * 2**20 * step + loop.dice.randrange(2**19)}
    [text] = _texts(loop.findings())
    assert text.startswith("Memory of rank 0 grows by 6")
    assert " MiB a step since step " in text


def test_memory_that_is_taken_once_is_no_growth(tmp_path: Path) -> None:
    loop = Loop(tmp_path, attributes=lambda step: {"rl.loop.memory": 2**29 if step < 10 else 2**31})
    assert [one for one in loop.findings() if "grows" in one.text] == []


# -- longer, and not slower --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits", "severities"), [(0.5, {"notice"}), (0.001, {"critical", "warning"})])
def test_a_step_that_is_longer_since_others_have_the_cpu_is_a_notice(
    tmp_path: Path, waits: float, severities: set[str]
) -> None:
    loop = Loop(tmp_path, seconds=lambda step: 0.48 if step < 25 else 1.03)
    loop.attributes = lambda step: {
        "rl.loop.cpu_time": loop.near(0.48 if step < 25 else 0.6),
        "rl.loop.cpu_wait_time": loop.near(0.001 if step < 25 else waits),
    }
    found = _all(loop.findings())
    assert {one.severity.value for one in found} == severities
    said = [sentence for one in found for sentence in one.evidence if "The machine was busy" in sentence]
    assert bool(said) == (severities == {"notice"})


def test_longer_answers_are_no_slower_model(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def rollouts(step: int) -> list[list[Part]]:
        tokens = 40 if step < 20 else 160
        values = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.output_tokens": tokens}
        return [[("chat m", loop.near(tokens / 400), dict(values))] for _ in range(4)]

    loop.rollouts = rollouts
    found = _all(loop.findings())
    [slower] = [one for one in found if one.code == "slower_model"]
    assert slower.severity == "notice"
    assert slower.evidence == ["There is more to do: output tokens of a call of model m went from 40 to 160."]


# -- tools, servers, rollouts ------------------------------------------------------------------------------------------


def _tool(name: str, seconds: float, error: str | None = None, **values: Any) -> Part:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return f"execute_tool {name}", seconds, {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "error": error, **named,
    }  # fmt: skip


def test_results_of_a_tool_that_grow_are_the_cause_of_longer_prompts(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def rollouts(step: int) -> list[list[Part]]:
        size = int(100 * 2 ** (max(step - 20, 0) / 4))
        model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": size}
        return [[_tool("search", 0.01, rl__tool__result__size=size), ("chat m", 0.05, model)]]

    loop.rollouts = rollouts
    first, *others = [one for one in loop.findings() if one.severity != "notice"]
    assert first.text == "Result of tool search grows since step 23: from 100 B to 9.67 KiB."
    assert [one.text.split(" since")[0] for one in first.symptoms] == ["Input tokens of a call of model m grow"]
    assert others == []


def test_a_tool_that_fails_on_one_of_its_servers_is_said_with_that_server(tmp_path: Path) -> None:
    def rollouts(step: int) -> list[list[Part]]:
        def call(server: int, number: int) -> Part:
            error = "TimeoutError" if server == 1 and step >= 15 and number % 2 else None
            return _tool("lookup", 0.01, error, server__address=f"10.0.0.{server}", server__port=80)

        return [[call(0, number), call(1, number)] for number in range(4)]

    [one] = [one for one in Loop(tmp_path, rollouts=rollouts).findings() if one.code == "failing_tool"]
    assert "fails in 50 % of its calls at 10.0.0.1:80 (0 % at 10.0.0.0:80), 25 % of all since step 15" in one.text


def test_a_server_that_gets_no_call_any_more_is_said(tmp_path: Path) -> None:
    def rollouts(step: int) -> list[list[Part]]:
        return [
            [("chat m", 0.05, {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "server.port": 8000,
                "server.address": f"10.0.0.{number if step < 30 else 0}",
            })]
            for number in range(2)
        ]  # fmt: skip

    [text] = _texts(Loop(tmp_path, rollouts=rollouts).findings())
    assert text == (
        "Model m at 10.0.0.1:8000 got no call from step 30 to 48, after 50 % of the calls before: all went to"
        " 10.0.0.0:8000."
    )


def test_rollouts_that_wait_before_their_first_call_are_told_from_slow_calls(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def rollouts(step: int) -> list[list[Part]]:
        waits = 0.02 if step < 25 else 0.4
        return [[("invoke", loop.near(waits), {}), _tool("search", loop.near(0.1))] for _ in range(3)]

    loop.rollouts = rollouts
    first, *_ = loop.findings()
    assert first.text.startswith("Waiting of a rollout before its first call takes ")
    assert " since step 25 " in first.text


def test_groups_of_equal_rewards_are_the_cause_of_a_gradient_that_vanishes(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"grad_norm": loop.near(1.2 if step < 22 else 0.05)}
    loop.samples = lambda step: {
        "rl.group.id": ["a", "a", "b", "b"],
        "rl.rollout.reward": [loop.dice.random() for _ in range(4)] if step < 22 else [0.4, 0.4, 0.7, 0.7],
    }
    first, *_ = loop.findings()
    assert first.text == "Share of groups with the same reward for all answers rose from 0 % to 100 % at step 22."
    assert any(symptom.text.startswith("grad_norm fell from 1.2") for symptom in first.symptoms)


@pytest.mark.parametrize("is_learned", [True, False])
def test_groups_that_are_equal_as_their_tasks_are_solved_are_a_notice(tmp_path: Path, *, is_learned: bool) -> None:
    loop = Loop(tmp_path)

    def logged(step: int) -> dict[str, float]:
        reward = min(0.4 + step / 60, 1.0) if is_learned else loop.near(0.7)
        return {"reward": reward, "frac_reward_zero_std": loop.dice.choice([0.5, 1.0, 1.0]) if step >= 34 else 0.0}

    loop.logged = logged
    [one] = [one for one in loop.findings() if one.code == "changed_value"]
    assert one.text.startswith("frac_reward_zero_std rose from 0 to 0."), "of two groups the median is 0, 0.5 or 1"
    assert one.severity == ("notice" if is_learned else "warning")
    assert one.evidence == (["reward is at its best then (1; 0.6833 before): tasks that are solved."] * is_learned)


def test_rewards_without_a_signal_follow_from_a_tool_that_fails(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.rollouts = lambda step: [[_tool("search", 0.01, "ToolError" if step >= 20 else None)] for _ in range(4)]
    loop.logged = lambda step: {"reward": loop.near(0.5) if step < 20 else 0.0, "reward_std": 0.2 * (step < 20)}
    first, *_ = loop.findings()
    assert first.text.startswith("Tool search fails in 100 % of its calls since step 20 ")
    assert "no_signal" in {one.code for one in first.chain()}


def test_a_tool_that_answers_otherwise_and_takes_longer_is_one_finding_with_the_rewards_below_it(
    tmp_path: Path,
) -> None:
    loop = Loop(tmp_path)

    def rollouts(step: int) -> list[list[Part]]:
        size, seconds = (300, 0.05) if step < 25 else (44, 0.4)
        return [[_tool("search", loop.near(seconds), rl__tool__result__size=size)] for _ in range(4)]

    loop.rollouts = rollouts
    loop.logged = lambda step: {"reward": loop.near(0.5 if step < 25 else 0.02)}
    first, *others = [one for one in loop.findings() if one.severity != "notice"]
    assert first.text.startswith("Tool search takes ")
    below = {one.text.split(" since")[0].split(" fell")[0] for one in first.chain()}
    assert {"Result of tool search", "reward"} <= below
    assert others == []


def test_an_evaluation_that_was_good_once_more_does_not_close_the_gap(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def logged(step: int) -> dict[str, float]:
        evaluated = {"eval_loss": loop.near(1.0 if step < 20 or step == 44 else 3.0)} if step % 2 == 0 else {}
        return {"train_loss": loop.near(1.0), **evaluated}

    loop.logged = logged
    [gap] = [one for finding in loop.findings() for one in finding.chain() if " parts from " in one.text]
    assert gap.text.startswith("eval_loss parts from train_loss between steps 18 and 20: ")


def test_what_has_changed_comes_before_what_a_loop_does_all_along(tmp_path: Path) -> None:
    loop = Loop(tmp_path, seconds=lambda step: 2.0 if step % 4 == 1 else 0.1)
    loop.attributes = lambda _step: {"rl.loop.source": "guessed"}
    loop.logged = lambda step: {"policy/clip_fraction": loop.near(0.03 if step < 25 else 0.4)}
    changed, usual = loop.findings()
    assert changed.text.startswith("policy/clip_fraction rose from 0.03")
    assert (changed.severity, usual.severity, usual.code) == ("notice", "notice", "recurring_phase")


@pytest.mark.parametrize("reward", [True, False])
def test_a_loss_that_jumps_is_no_warning_where_rewards_are_what_is_learned_from(
    tmp_path: Path, *, reward: bool
) -> None:
    loop = Loop(tmp_path)
    loop.samples = lambda _step: {"rl.rollout.reward": [loop.dice.random() for _ in range(4)]} if reward else {}
    loop.logged = lambda step: {
        "loss": loop.near(0.1 if step < 25 else 0.5), **({"reward": loop.near(0.5)} if reward else {}),
    }  # fmt: skip
    assert bool(_texts(loop.findings())) == (not reward)


def test_a_loss_that_jumps_is_a_warning_beside_an_accuracy(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"loss": loop.near(0.1 if step < 25 else 0.5), "accuracy": loop.near(0.7)}
    assert any(text.startswith("loss rose from 0.1") for text in _texts(loop.findings()))


def test_where_the_program_logs_its_loss_that_of_pytorch_is_not_told(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"train/loss": loop.near(0.5), "torch/loss": loop.near(0.5 if step < 25 else 32.0)}
    assert [one.chart for one in loop.findings() if one.code == "value_change"] == []


# -- what comes and goes -----------------------------------------------------------------------------------------------


def test_larger_batches_in_some_steps_are_no_finding(tmp_path: Path) -> None:
    dice = random.Random(3)  # noqa: S311 - repeatable
    large = {step for step in range(1, 81) if dice.random() < 0.25}

    def phases(step: int, _rank: int) -> dict[str, float]:
        return {"generate": 8.0 if step in large else 1.0, "train": 0.2}

    found = examined(Job(tmp_path / "run", phases, ranks=1, steps=80).write()).findings
    assert [one.text for one in found if one.code.startswith("recurring") and one.gravest != "notice"] == []


def test_an_evaluation_between_marked_steps_is_how_a_loop_is_made(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", lambda _step, _rank: {"train": 1.0}, ranks=1)
    job.fetching = lambda step, _rank: 30.0 if step % 10 == 0 else 0.05
    assert _texts(examined(job.write()).findings) == []


def test_a_tool_that_is_dead_in_the_last_steps_is_said_however_long_it_worked(tmp_path: Path) -> None:
    def rollouts(step: int) -> list[list[Part]]:
        return [[_tool("search", 0.01, "ValueError" if step > 46 else None)] for _ in range(4)]

    texts = _texts(Loop(tmp_path, rollouts=rollouts).findings())
    assert [text.startswith("Tool search fails in 67 % of its calls since step 46") for text in texts] == [True]


def test_a_wait_for_data_in_every_third_step_is_found_though_most_steps_have_none(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {"data_wait": 0.8 if step >= 14 and step % 3 == 2 else 0.01, "train": 0.3}

    [one] = [
        one for one in examined(Job(tmp_path / "run", phases, ranks=1).write()).findings if one.severity != "notice"
    ]
    assert one.text.startswith("Phase data_wait takes 799 ms")
    assert " in every third step, from step 14 (" in one.text
    assert (one.code, one.onset) == ("recurring_phase", 14)


def test_a_rank_that_is_slow_in_bursts_is_said_with_these_steps(tmp_path: Path) -> None:
    slow = {*range(16, 21), *range(31, 36)} | {*range(46, 51)}

    def phases(step: int, rank: int) -> dict[str, float]:
        return {"forward": 0.25 if rank == 1 and step in slow else 0.05, "train": 0.05}

    first, *others = [
        one for one in examined(Job(tmp_path / "run", phases, steps=60).write()).findings if one.severity != "notice"
    ]
    assert first.text.startswith("Phase forward on rank 1 takes 25")
    assert " in steps 16 to 20, 31 to 35 and 46 to 50 (" in first.text
    assert others == []


def test_bursts_in_which_others_have_the_cpu_are_a_notice(tmp_path: Path) -> None:
    busy = {*range(16, 21), *range(31, 36)} | {*range(41, 46)}
    loop = Loop(tmp_path, seconds=lambda step: 1.2 if step in busy else 0.3)
    loop.attributes = lambda step: {"rl.loop.cpu_wait_time": loop.near(0.8 if step in busy else 0.001)}
    [one] = [one for one in loop.findings() if one.code == "recurring_phase"]
    assert one.severity == "notice"
    assert one.evidence[0].startswith("The machine was busy: in these steps their thread waited ")


def test_sampling_for_several_steps_at_once_is_how_a_loop_is_made(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {"sample": 2.0 if step % 4 == 1 else 0.01, "train": 0.3}

    found = examined(Job(tmp_path / "run", phases, ranks=1).write()).findings
    assert {one.severity.value for one in found} <= {"notice"}


def test_a_checkpoint_that_takes_longer_is_compared_with_checkpoints(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        saves = {"checkpoint": 2.0 if step >= 25 else 0.3} if step % 5 == 0 else {}
        return {"train": 0.5, **saves}

    first, *_ = examined(Job(tmp_path / "run", phases, ranks=1, steps=60).write()).findings
    assert first.text.startswith("Phase checkpoint takes ")
    assert " since step 25 (" in first.text


def test_what_is_kept_between_two_looks_at_a_followed_run_does_not_pile_up(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {
        "rewards/judge/mean": 0.531 if step >= 25 else loop.near(0.55, 0.2),
        "reward_std": loop.near(0.02 if step >= 25 else 0.3),
    }
    loop.findings()
    collected = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None)
    collected.earlier_looks = EarlierLooks(fresh=1e6)
    looks = []
    for _ in range(3):
        collected.answers.clear()
        looks.append([(one.text, len(one.symptoms)) for one in overview.examine(collected).findings])
    assert looks[0] == looks[1] == looks[2]


@pytest.mark.parametrize("key", ["train_loss_step", "total_loss", "loss/total"])
def test_a_loss_is_a_curve_by_any_name(tmp_path: Path, key: str) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {key: loop.near(0.5 if step < 25 else 2.0)}
    assert [text.startswith(f"{key} rose from 0.") for text in _texts(loop.findings())] == [True]


# -- in general --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_run_in_which_nothing_happens_has_no_warning(tmp_path: Path, seed: int) -> None:
    """Forty curves, of which some walk, rise, saturate or decay; uneven steps, an evaluation and a slow first step."""
    loop = Loop(tmp_path, dice=random.Random(seed))  # noqa: S311 - repeatable
    walks = [0.0] * 10

    def logged(step: int) -> dict[str, float]:
        for place in range(len(walks)):
            walks[place] += loop.dice.gauss(0, 1)
        return (
            {f"walk_{place}": value for place, value in enumerate(walks)}
            | {f"noise_{place}": loop.dice.gauss(1, 0.3) for place in range(10)}
            | {f"rising_{place}": step * 0.1 * place + loop.dice.gauss(0, 1) for place in range(10)}
            | {f"loss_{place}": 3 * 0.9**step + loop.dice.lognormvariate(0, 0.2) for place in range(10)}
        )

    loop.logged = logged
    loop.seconds = lambda step: (5.0 if step == 1 else 0.4) * loop.dice.lognormvariate(0, 0.3)
    assert _texts(loop.findings()) == []


# -- what is used, waits, and grows ------------------------------------------------------------------------------------


def test_a_size_that_grows_by_the_same_each_step_is_growth_from_its_begin(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.samples = lambda step: {
        "rl.rollout.id": [f"{step}-{number}" for number in range(4)],
        "rl.rollout.input_tokens": [round(loop.near(20 + 115 * max(step - 14, 0))) for _ in range(4)],
    }
    [one] = [one for one in loop.findings() if one.severity != "notice"]
    assert one.text.startswith("Input tokens of a rollout grow since step 1")
    assert one.onset in range(15, 18)


def test_a_tool_that_takes_a_little_longer_with_each_step_is_said_with_both_ends(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.rollouts = lambda step: [[_tool("search", loop.near(0.1 + 0.012 * max(step - 18, 0), 0.1))] for _ in range(4)]
    [one] = [one for one in loop.findings() if one.severity != "notice"]
    assert one.text.startswith("Tool search takes longer and longer since step 19")
    assert re.search(r": from 1\d\d ms to 4\d\d ms a call: \d\d % of the", one.text)


@pytest.mark.parametrize(
    ("key", "begins", "severity"),
    [("queue/size", 20, "warning"), ("cache/entries", 20, "notice"), ("cache/entries", 0, "")],
)
def test_what_begins_to_grow_is_said_by_what_its_key_means(
    tmp_path: Path, key: str, begins: int, severity: str
) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {key: round(loop.near(3, 0.5)) + 5 * max(step - begins, 0) - 2 * (step % 3)}
    found = loop.findings()
    assert [(one.severity, one.chart) for one in found] == [(severity, key)] * bool(severity)
    assert all(one.text.startswith(f"{key} grows since step 2") for one in found)


def test_a_share_of_accepted_samples_that_falls_and_wavers_is_a_warning(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.logged = lambda step: {"filter/accepted_share": min(loop.near(0.85 if step < 25 else 0.35, 0.3), 1.0)}
    [one] = loop.findings()
    assert one.text.startswith("filter/accepted_share fell from 8")
    assert (one.severity, one.onset) == ("warning", 25)


def test_a_training_that_catches_up_with_its_evaluation_is_no_gap(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def logged(step: int) -> dict[str, float]:
        evaluated = {"eval_reward": loop.near(0.9, 0.02) - 0.001 * step} if step % 2 == 0 else {}
        return {"train_reward": loop.near(min(0.9, 0.02 * step)), **evaluated}

    loop.logged = logged
    assert _texts(loop.findings()) == []


def test_a_rank_that_gets_smaller_batches_is_the_cause_of_the_late_one(tmp_path: Path) -> None:
    job = Job(
        tmp_path / "run", lambda step, rank: {"forward": 0.25 if rank == 1 and step >= 16 else 0.5, "train": 0.05}
    )
    job.step_values = lambda step, rank: {"rl.loop.samples": 6 if rank == 1 and step >= 16 else 24}
    found = [one for one in examined(job.write()).findings if one.severity != "notice"]
    assert [one.text for one in found] == ["Samples of a step on rank 1 fell from 24 to 6 at step 16."]
    assert "Rank 0 makes the others wait" in found[0].symptoms[-1].text


def test_what_comes_and_goes_is_not_also_said_not_to_be_found(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {"data_wait": 0.8 if step >= 14 and step % 3 == 2 else 0.01, "train": 0.3}

    overview = examined(Job(tmp_path / "run", phases, ranks=1).write())
    assert "steps and phases that become slower" not in output.checked_without_finding(overview)


def test_a_rise_by_time_is_said_with_its_moment(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", None, started=STARTED)
    for number in range(60):
        writer.span("execute_tool search", number, number + 0.5, _result_of(40 if number < 30 else 400 + number % 7))
    writer.write()
    [one] = [one for one in examined(tmp_path / "run").findings if one.severity != "notice"]
    assert re.match(r"Result of tool search rose from 40 B to 40\d B at \d\d:\d\d:\d\d UTC\.", one.text)


def _result_of(size: int) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "rl.tool.result.size": size
    }  # fmt: skip


def test_memory_that_grows_from_the_first_steps_on_may_still_warm_up(tmp_path: Path) -> None:
    loop = Loop(tmp_path, attributes=lambda step: {"rl.loop.memory": (400 << 20) + (step << 20)})
    [one] = loop.findings()
    assert (one.severity, one.onset in range(3, 9)) == ("notice", True)


def test_what_a_guessed_loop_does_every_few_steps_from_the_first_on_is_how_it_is_made(tmp_path: Path) -> None:
    pauses = {5, 14, 22, 31, 39, 47}
    loop = Loop(tmp_path, seconds=lambda step: 2.0 if step in pauses else 0.1)
    loop.attributes = lambda _step: {"rl.loop.source": "guessed"}
    assert {one.severity.value for one in loop.findings() if one.code.startswith("recurring")} == {"notice"}


def test_steps_that_are_longer_with_larger_batches_are_no_slow_steps(tmp_path: Path) -> None:
    loop = Loop(tmp_path, seconds=lambda step: 2.0 if step >= 30 else 0.5)
    loop.logged = lambda step: {"torch/batch_size": 32 if step >= 30 else 8, "step_time": 2.0 if step >= 30 else 0.5}
    assert _texts(loop.findings()) == []


@pytest.mark.parametrize(("key", "is_found"), [("ppo/ratio_max", True), ("ppo/clip_fraction", False)])
def test_a_ratio_that_is_exactly_1_is_no_policy_that_has_settled(tmp_path: Path, key: str, *, is_found: bool) -> None:
    loop, value = Loop(tmp_path), 1.0 if key == "ppo/ratio_max" else 0.0
    loop.logged = lambda step: {key: value if step >= 25 else value + loop.near(0.2, 0.9)}
    texts = _texts(loop.findings())
    assert bool(texts) == is_found
    assert all(text.startswith(f"{key} is exactly 1 since step 25; it was 1.") for text in texts)


def test_ranks_that_no_longer_meet_in_collectives_are_said(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", lambda _step, _rank: {"forward": 0.5, "train": 0.1})
    job.step_values = lambda step, _rank: {"torch.distributed.calls": 3 if step < 21 else 0}
    texts = _texts(examined(job.write()).findings)
    assert texts == ["Collective operations of a step fell from 3 to 0 at step 21."]
