"""What the first section says of checks: made, too little data, not recorded, or not applying to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, Job, examined
from unit.report.synthetic_run import ProcessWriter, process, write_agent_run

from otel_rl.report import write_report
from otel_rl.report.core import output
from otel_rl.report.core.finding import Check, CheckState, Finding, Overview, Severity

if TYPE_CHECKING:
    from pathlib import Path


def _phases(_step: int, _rank: int) -> dict[str, float]:
    return {"sample": 0.2, "train": 0.1}


def _check(overview: Overview, what: str) -> Check:
    [check] = [one for one in overview.checks if one.what == what]
    return check


def _loop(folder: Path, logged: list[dict[str, float]], **resource: Any) -> ProcessWriter:
    writer = process(folder, None, started=STARTED, **resource)
    for step, values in enumerate(logged, 1):
        where = {"rl.loop.iteration": step}
        writer.span("rl.rank.step", step, step + 0.9, where)
        writer.event("rl.step", step + 0.8, body=values, attributes={**where, "rl.step.last": step})
    writer.write()
    return writer


def test_a_healthy_job_has_a_verdict_that_says_how_much_was_seen(tmp_path: Path) -> None:
    overview = examined(Job(tmp_path / tmp_path.name, _phases, steps=40).write())
    assert output.verdict(overview).startswith("Nothing wrong found in 40 steps of 2 ranks: checked ")
    assert "steps and phases that become slower (40 steps of 2 ranks)" in output.checked_without_finding(overview)
    assert "late ranks (40 steps of 2 ranks)" in output.checked_without_finding(overview)
    assert output.lines(overview) == [output.verdict(overview), output.checked_without_finding(overview)]


def test_of_a_program_without_training_no_check_of_a_training_is_missing(tmp_path: Path) -> None:
    overview = examined(write_agent_run(tmp_path))
    applying = [check.what for check in overview.checks if check.state is not CheckState.NOT_APPLICABLE]
    assert "late ranks" not in applying
    assert "KL explosion" not in applying
    assert _check(overview, "KL explosion").detail == "this program has no training steps"
    assert _check(overview, "failing tools") == Check(
        "failing tools", CheckState.SEEN, "1 of 12 calls: TimeoutError", ("failing_tool", "errors"), 12
    )


@pytest.mark.parametrize(
    ("versions", "state", "runs"),
    [
        ({"smolagents": "1.2"}, "failed", "smolagents, which runs them, is not instrumented"),
        ({"smolagents": "1.2"}, "active", "what runs them is not instrumented; otel_rl.tool records a tool function"),
        ({"haystack-ai": "2.1"}, "active", "haystack-ai, which runs them, is not instrumented"),
        ({}, "active", "what runs them is not instrumented; otel_rl.tool records a tool function"),
    ],
)
def test_tools_that_answers_ask_for_are_not_said_to_be_called_by_nobody(
    tmp_path: Path, versions: dict[str, str], state: str, runs: str
) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.versions, writer.instrumentors = versions, {"otel_rl_smolagents": {"state": state, "reason": ""}}
    asking = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "rl.inference.tool_calls": ("get_weather",)}
    for number in range(5):
        writer.span("chat m", number, number + 0.5, asking)
    writer.write()
    check = _check(examined(tmp_path), "failing tools")
    assert (check.state, check.detail) == (CheckState.NOT_RECORDED, f"5 answers asked for get_weather; {runs}")


def test_of_libraries_that_nothing_instruments_nothing_is_said_not_to_have_happened(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.versions = {"cohere": "5.1", "haystack-ai": "2.1"}
    writer.write()
    overview = examined(tmp_path)
    tools, models = _check(overview, "failing tools"), _check(overview, "failing model calls")
    assert (tools.state, models.state) == (CheckState.NOT_RECORDED, CheckState.NOT_RECORDED)
    assert tools.detail == "tools of haystack-ai are not instrumented; otel_rl.tool records them"
    assert models.detail == "calls of cohere are not instrumented; otel_rl.llm records them"


def test_without_a_recorded_call_nobody_says_that_litellm_asked_no_model(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.versions = {"litellm": "1.110.2"}
    writer.write()
    check = _check(examined(tmp_path), "failing model calls")
    assert check.state is CheckState.NOT_RECORDED
    assert check.detail == "calls of litellm to some providers are not instrumented; otel_rl.llm records them"


def test_a_loop_that_moves_its_weights_by_hand_has_training_steps_that_were_not_recognised(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.passes = 45
    writer.write()
    overview = examined(tmp_path)
    [finding] = overview.findings
    assert (finding.code, finding.severity) == ("no_steps", "notice")
    assert finding.text.startswith("No step was recognised in 45 backward passes: no optimizer of PyTorch moved.")
    assert _check(overview, "slow steps").state is CheckState.NOT_RECORDED
    assert output.verdict(overview).startswith("No step was recognised, so the training was not judged: checked ")


@pytest.mark.parametrize("key", ["grad_norm", "train/grad_norm", "torch/grad_norm", "run-7/actor/Grad_Norm"])
def test_a_value_is_known_behind_any_prefix(tmp_path: Path, key: str) -> None:
    _loop(tmp_path / tmp_path.name / "0", [{key: 0.5, "loss": 1.0}] * 20)
    check = _check(examined(tmp_path / tmp_path.name), "gradients of exactly 0")
    assert (check.state, check.series) == (CheckState.CHECKED, (key,))


@pytest.mark.parametrize("key", ["critic/grad_norm", "eval/grad_norm", "timing_s/grad_norm"])
def test_a_prefix_that_gives_a_value_another_meaning_is_said_and_not_judged(tmp_path: Path, key: str) -> None:
    _loop(tmp_path / tmp_path.name / "0", [{key: 0.0, "loss": 1.0}] * 20)
    overview = examined(tmp_path / tmp_path.name)
    assert _check(overview, "gradients of exactly 0").detail == "no norm of the gradient was logged"
    assert _check(overview, "gradient blow-up").detail == (
        f"{key} may be the norm of the gradient before clipping: otel_rl.metric records it as grad_norm"
    )


def test_a_value_that_was_logged_before_the_steps_began_again_is_not_said_to_be_missing(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    for at in (1, 2):
        writer.span("rl.rank.step", at, at + 0.9, {"rl.loop.iteration": 1})
    writer.event("rl.step", 1.5, body={"kl": 0.1}, attributes={"rl.loop.iteration": 1, "rl.step.last": 1})
    writer.write()
    check = _check(examined(tmp_path), "KL explosion")
    assert (check.state, check.detail) == (CheckState.TOO_LITTLE, "needs 3 log calls, has 0")


def test_a_value_with_a_finding_of_another_rule_is_not_said_to_have_none(tmp_path: Path) -> None:
    _loop(tmp_path / tmp_path.name / "0", [{"grad_norm": 0.0, "loss": 1.0}] * 20)
    overview = examined(tmp_path / tmp_path.name)
    assert [finding.code for finding in overview.findings] == ["no_update"]
    line = output.checked_without_finding(overview)
    assert "not a number (20 log calls)" not in line
    assert "gradients of exactly 0" not in line


def test_tools_that_only_the_messages_tell_of_are_not_said_to_be_none(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.span("rl.rollout", 0, 1, {"rl.rollout.id": "r-1"})
    body = {"rl.rollout.seconds": [1.0, 1.0], "rl.rollout.tool_calls": [1_040, 3]}
    writer.event("rl.trajectories", 1, body, {"rl.trajectories.source": "rollout"})
    writer.write()
    overview = examined(tmp_path)
    for what in ("failing tools", "tools that become slower"):
        check = _check(overview, what)
        assert check.state is CheckState.NOT_RECORDED
        assert check.detail == (
            "1,043 tool calls are known from the messages, but no tool function is recorded (otel_rl.tool does that)"
        )


def test_a_rule_with_too_few_values_has_found_nothing_nor_cleared_anything(tmp_path: Path) -> None:
    # Seven of eight steps have no difference in reward; one group per step lacks one by chance, too.
    dead = [{"frac_reward_zero_std": float(step != 4), "reward": step / 8} for step in range(8)]
    _loop(tmp_path / tmp_path.name / "0", dead, rl__algorithm="grpo")
    overview = examined(tmp_path / tmp_path.name)
    check = _check(overview, "no signal")
    assert (check.state, check.detail) == (CheckState.TOO_LITTLE, "needs 64 log calls, has 8")
    assert "no signal" not in output.checked_without_finding(overview)


def test_a_rule_with_enough_values_says_how_many(tmp_path: Path) -> None:
    alive = [{"frac_reward_zero_std": 0.25, "reward": step / 20} for step in range(20)]
    _loop(tmp_path / tmp_path.name / "0", alive, rl__algorithm="grpo")
    assert "no signal (20 log calls)" in output.checked_without_finding(examined(tmp_path / tmp_path.name))


@pytest.mark.parametrize(
    ("algorithm", "state"), [("grpo", CheckState.NOT_RECORDED), ("sft", CheckState.NOT_APPLICABLE)]
)
def test_a_curve_that_is_missing_is_not_the_same_as_one_that_the_algorithm_does_not_have(
    tmp_path: Path, algorithm: str, state: CheckState
) -> None:
    writer = _loop(tmp_path / tmp_path.name / "0", [{"loss": 1.0}] * 20, rl__algorithm=algorithm)
    body = {"rl.reward.names": ["score"], "rl.reward.scores": [[1.0, 0.0]]}
    writer.event("rl.trajectories", 20, body, {"rl.loop.iteration": 20})
    writer.write()
    check = _check(examined(tmp_path / tmp_path.name), "KL explosion")
    assert check.state is state
    if state is CheckState.NOT_RECORDED:
        assert check.detail == ("not logged: divergence from the reference per token (kl); otel_rl.metric records it")


@pytest.mark.parametrize(("algorithm", "logged"), [(None, {"reward": 0.5}), ("grpo", {"loss": 1.0})])
def test_a_training_on_rewards_is_one_though_no_sample_was_recorded(
    tmp_path: Path, algorithm: str | None, logged: dict[str, float]
) -> None:
    resource = {"rl__algorithm": algorithm} if algorithm else {}
    _loop(tmp_path / tmp_path.name / "0", [{**logged, "loss": 1.0}] * 20, **resource)
    overview = examined(tmp_path / tmp_path.name)
    assert _check(overview, "KL explosion").state is CheckState.NOT_RECORDED
    assert all("scores no answers" not in check.detail for check in overview.checks)


@pytest.mark.parametrize(
    ("key", "state"), [("torch/learning_rate", CheckState.NOT_APPLICABLE), ("other", CheckState.NOT_RECORDED)]
)
def test_a_value_of_guessed_steps_that_no_rule_judges_is_not_said_to_be_missing(
    tmp_path: Path, key: str, state: CheckState
) -> None:
    _loop(tmp_path / tmp_path.name / "0", [{key: 0.1, "torch/loss": 1.0}] * 20)
    overview = examined(tmp_path / tmp_path.name)
    assert _check(overview, "learning rate too high").state is state
    assert _check(overview, "gradient blow-up").state is CheckState.NOT_RECORDED


def test_what_a_killed_process_lost_is_not_said_to_be_nothing(tmp_path: Path) -> None:
    writer = _loop(tmp_path / tmp_path.name / "0", [{"loss": 1.0}] * 20)
    writer.clean_exit, writer.ended = False, None
    writer.write()
    overview = examined(tmp_path / tmp_path.name)
    assert _check(overview, "lost telemetry").state is CheckState.NOT_RECORDED
    assert "lost telemetry" not in output.checked_without_finding(overview)


def test_what_has_a_finding_is_in_no_list_of_checks_without_one(tmp_path: Path) -> None:
    def slower(step: int, _rank: int) -> dict[str, float]:
        return {"sample": 0.2 if step < 15 else 0.6, "train": 0.1}

    overview = examined(Job(tmp_path / tmp_path.name, slower, steps=40).write())
    assert overview.findings[0].code == "slower_phase"
    listed = [check.what for state in CheckState for check in output.without_finding(overview, state)]
    assert "steps and phases that become slower" not in listed
    assert "slow steps" not in listed


def test_steps_of_one_rank_or_without_collectives_are_not_compared(tmp_path: Path) -> None:
    _loop(tmp_path / tmp_path.name / "0", [{"loss": 1.0}] * 20)
    check = _check(examined(tmp_path / tmp_path.name), "late ranks")
    assert (check.state, check.detail) == (CheckState.NOT_APPLICABLE, "the job has one rank")
    few = examined(Job(tmp_path / "few" / "few", _phases, steps=4).write())
    assert _check(few, "late ranks").detail == "needs 5 steps, has 4"


def _rollouts(folder: Path, successes: list[bool | None], rewards: list[float | None]) -> ProcessWriter:
    writer = process(folder, None, started=STARTED)
    body = {
        "rl.rollout.id": [f"r-{number}" for number in range(len(successes))],
        "rl.rollout.status": ["finished"] * len(successes),
        "rl.rollout.success": successes,
        "rl.rollout.reward": rewards,
    }
    values = {"rl.loop.iteration": 1, "rl.trajectories.source": "rollout", "rl.trajectories.started": len(successes)}
    writer.event("rl.trajectories", 2, body, values)
    return writer


@pytest.mark.parametrize(
    ("successes", "said"),
    [
        (
            [True, True, None, None, None],
            "Success was recorded for 2 of 5, and no failure: of the others it is not known.",
        ),
        ([True, False, True, True, True], "4 of 5 succeeded."),
        ([True, False, None, None, None], "Success or failure was recorded for 2 of 5: 1 succeeded."),
    ],
)
def test_success_that_is_recorded_of_successes_only_is_no_rate(
    tmp_path: Path, successes: list[bool | None], said: str
) -> None:
    writer = _rollouts(tmp_path / "run" / "0", successes, [1.0] * 5)
    writer.write()
    assert said in write_report(tmp_path / "run", tmp_path / "p.html").output.read_text()


def test_scores_that_came_after_their_rollouts_are_said_to_belong_to_no_sample(tmp_path: Path) -> None:
    def written(folder: Path, reward: float | None) -> Overview:
        writer = _rollouts(folder / "0", [None, None], [reward, reward])
        score = {"gen_ai.evaluation.name": "answer", "gen_ai.evaluation.score.value": 1.0}
        writer.event("gen_ai.evaluation.result", 3, attributes=score)
        writer.write()
        return examined(folder)

    [one] = written(tmp_path / "late", None).findings
    assert (one.code, one.severity) == ("reward_without_sample", "notice")
    assert one.text.startswith("2 samples have no reward: answer came outside of a rollout, or after it had ended")
    assert written(tmp_path / "in_time", 0.5).findings == []


@pytest.mark.parametrize(("functions", "severity"), [(1, "warning"), (2, "notice")])
def test_scores_that_are_no_number_are_counted_and_not_said_to_be_in_order(
    tmp_path: Path, functions: int, severity: str
) -> None:
    writer = _loop(tmp_path / tmp_path.name / "0", [{"loss": 1.0}] * 20, rl__algorithm="grpo")
    body = {
        "rl.rollout.reward": [0.5] * 8,
        "rl.reward.names": ["judge", "length"][:functions],
        "rl.reward.scores": [[1.0] * 7 + [None], [1.0] * 8][:functions],
    }
    for step in range(20):
        writer.event("rl.trajectories", step, body, {"rl.loop.iteration": step, "rl.trajectories.source": "trainer"})
    writer.write()
    overview = examined(tmp_path / tmp_path.name)
    [found] = [one for one in overview.findings if one.code == "missing_scores"]
    assert (found.text, found.severity) == (
        "20 of 160 scores of reward function judge are None or not a number.",
        severity,
    )
    line = output.checked_without_finding(overview)
    assert "not a number" not in line
    assert "unscored samples" not in line


def test_scores_of_all_samples_of_a_trainer_are_not_said_to_be_missing(tmp_path: Path) -> None:
    writer = _loop(tmp_path / tmp_path.name / "0", [{"loss": 1.0}] * 20, rl__algorithm="grpo")
    body = {"rl.rollout.reward": [0.5, 1.0], "rl.reward.names": ["judge"], "rl.reward.scores": [[0.5, 1.0]]}
    writer.event("rl.trajectories", 1, body, {"rl.loop.iteration": 1, "rl.trajectories.source": "trainer"})
    writer.write()
    assert "unscored samples (2 scores)" in output.checked_without_finding(examined(tmp_path / tmp_path.name))


@pytest.mark.parametrize(("norms", "is_found"), [([0.0] * 12, True), ([0.0] * 11 + [0.1], False), ([0.0] * 9, False)])
def test_gradients_of_exactly_zero_in_every_log_call_are_a_warning(
    tmp_path: Path, norms: list[float], *, is_found: bool
) -> None:
    logged = [{"loss": 0.0, "grad_norm": norm} for norm in norms]
    _loop(tmp_path / tmp_path.name / "0", logged, rl__algorithm="sft")
    overview = examined(tmp_path / tmp_path.name)
    said = [finding.text for finding in overview.findings if finding.code == "no_gradient"]
    assert said == ["The gradient norm is exactly 0 in all 12 log calls: nothing is learned."] * is_found


def test_a_symptom_that_is_graver_than_its_cause_makes_the_verdict() -> None:
    stopped = Finding("ended", Severity.NOTICE, "trainer was interrupted by Ctrl-C.", "ending")
    stopped.symptoms.append(Finding("hang", Severity.WARNING, "trainer: no progress for 86 s.", "errors"))
    overview = Overview([stopped], [])
    assert overview.worst is Severity.WARNING
    assert output.lines(overview) == ["warning: trainer was interrupted by Ctrl-C."]
    told = output.as_json(overview)
    assert (told["worst"], told["verdict"], told["findings"][0]["severity"]) == ("warning", None, "warning")
