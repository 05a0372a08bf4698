"""The health rules over recorded runs: the same verdicts as live, several attempts, restarts, missing ranks."""

from __future__ import annotations

import json
from math import nan
from typing import TYPE_CHECKING, Any

import pytest
from unit.health import made_up_runs
from unit.report.made_up_jobs import examined
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.core import settings
from otel_rl.health.calls import LIVE_ONLY
from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State, Verdict
from otel_rl.report import write_report
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.health import replay
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000
KL, SLOW = Code.P3_KL_EXPLOSION, Code.P7_SLOW_STEP


class Written:
    """Writes the processes of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        values: list[dict[str, Any]],
        rank: int | None = 0,
        *,
        first: int = 1,
        attempt: str = "0.0.0",
        begins: float = 0.0,
        seconds: Callable[[int], float] = lambda _: 1.0,
        spans: bool = True,
    ) -> None:
        """One process whose steps log ``values``."""
        started = STARTED + int(begins * 1e9)
        writer = process(self.folder, rank, started=started, rl__run__attempt=attempt)
        at = 1.0
        for step, logged in enumerate(values, first):
            length = seconds(step)
            if logged:
                step_range = {"rl.loop.iteration": step, "rl.step.first": step, "rl.step.last": step}
                writer.event("rl.step", at + 0.9 * length, body=logged, attributes=step_range)
            if spans:
                root = writer.span("rl.loop", at, at + length, {"rl.loop.iteration": step})
                where = {"rl.loop.iteration": step, "rl.phase": "reward"}
                writer.span("rl.reward", at, at + length * 0.7, where, root)
                ranked = {"rl.loop.iteration": step} | ({} if rank is None else {"rl.rank": rank})
                writer.span("rl.rank.step", at, at + length, ranked, root)
            at += length
        writer.write()

    def collected(self) -> Collected:
        return Collected(Reader(find_run(self.folder, None)), load()).read(lambda _: None)

    def verdicts(self) -> list[Verdict]:
        return replay.verdicts(self.collected())

    def findings(self) -> dict[str, Verdict]:
        return {one.code: one for one in self.verdicts() if one.is_finding}

    def verdict(self, code: str) -> Verdict:
        [found] = [one for one in self.verdicts() if one.code == code]
        return found


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "data" / "run")


def sick(steps: int = 60, begin: int = 30) -> list[dict[str, Any]]:
    return made_up_runs.run(steps, kl=lambda step: (0.01 if step < begin else 7.0) + 1e-6 * (step % 2))


def test_the_verdicts_of_a_recorded_run_are_those_of_its_steps(written: Written) -> None:
    values = made_up_runs.run(80, kl=lambda step: 0.01 if step < 30 else 7.0, truncated=lambda _: 1.0)
    dice = made_up_runs.thrown(1)
    lengths = [dice.uniform(0.9, 1.1) * (3.2 if step > 50 else 1.0) for step in range(81)]
    written.add(values, seconds=lengths.__getitem__)

    of_steps = made_up_runs.monitor(values, lengths.__getitem__).verdicts()
    live = [one for one in of_steps if one.code not in LIVE_ONLY]
    found = written.verdicts()
    assert [(one.code, one.severity, one.onset, one.until) for one in found] == [
        (one.code, one.severity, one.onset, one.until) for one in live
    ]
    alike = [one for one in found if one.code != SLOW]
    assert [one.evidence for one in alike] == [one.evidence for one in live if one.code != SLOW]
    assert "rl.reward takes" in next(one.evidence for one in found if one.code == SLOW)


@pytest.mark.parametrize("sick", ["torch/loss", "loss"])
def test_a_loss_that_is_no_number_is_one_finding_by_guessed_steps_and_by_the_epochs_of_a_program(
    tmp_path: Path, sick: str
) -> None:
    writer = process(tmp_path / "run", 0, started=STARTED)
    gauge = writer.meter.create_gauge("rl.trainer.metric")
    for step in range(1, 61):
        guessed = {"rl.loop.iteration": step, "rl.loop.source": "guessed"}
        loss = nan if step > 40 else 0.5
        writer.event("rl.step", step, body={"torch/loss": loss if sick == "torch/loss" else 0.5}, attributes=guessed)
        writer.span("rl.rank.step", step, step + 1, guessed)
        if step % 10 == 0:
            values = {"loss": loss if sick == "loss" else 0.4, "grad_norm": 1.0}
            gauge.set(1.0, {"rl.trainer.metric.key": "grad_norm"})
            writer.event("rl.step", step + 1, body=values, attributes={"rl.loop.iteration": step // 10})
    writer.write()
    found = Written(tmp_path / "run")
    assert [(one.code, one.metric, one.onset) for one in found.findings().values()] == [
        (Code.NON_FINITE, sick, 41 if sick == "torch/loss" else 5)
    ]
    assert [one.code for one in found.verdicts()].count(Code.NON_FINITE) == 1
    assert (found.verdict(SLOW).severity, found.verdict(Code.GRADIENT_NORM).observed) == (State.HEALTHY, 6)


@pytest.mark.parametrize(("source", "cause"), [("guessed", "; rl.forward takes 0.9 s"), ("known", "no phase explains")])
def test_the_part_of_guessed_steps_that_became_slower_is_named(tmp_path: Path, source: str, cause: str) -> None:
    """Those of a trainer are in its phases."""
    writer, at = process(tmp_path / "run", 0, started=STARTED), 1.0
    for step in range(1, 61):
        of_step, end = {"rl.loop.iteration": step, "rl.loop.source": source}, at + (0.2 if step <= 40 else 1.0)
        root = writer.span("rl.loop", at, end, of_step)
        writer.span("rl.forward", at + 0.1, end, {**of_step, "rl.phase": "forward"}, root)
        writer.span("rl.rank.step", at, end, of_step, root)
        at = end
    writer.write()
    found = Written(tmp_path / "run").verdict(SLOW)
    assert found.is_finding
    assert cause in found.evidence


def test_an_attempt_of_thousands_of_digits_is_taken_for_none(written: Written) -> None:
    written.add([{"kl": 0.01}] * 12, attempt=f"1.{'9' * 5000}")

    assert write_report(written.folder, written.folder / "report.html").output.exists()


def test_the_divergence_of_preference_training_is_not_judged_per_token(written: Written) -> None:
    written.add([{"loss": 0.5, "kl": 8.0, "rewards/chosen": 1.0, "rewards/rejected": -1.0}] * 40)

    assert written.verdict(KL).severity == State.UNOBSERVED


def test_a_run_without_values_says_that_nothing_was_observed(written: Written) -> None:
    written.add([{}] * 3)

    found = written.verdicts()
    assert {one.severity for one in found} == {State.UNOBSERVED}
    assert {one.code for one in found} == RULES.keys() - LIVE_ONLY


def test_a_missing_rank_0_leaves_the_step_times_of_the_lowest_rank_and_the_rest_unobserved(written: Written) -> None:
    slow = lambda step: 1.0 if step < 30 else 4.0  # noqa: E731
    written.add([{}] * 60, rank=2, seconds=lambda _: 1.0)
    written.add([{}] * 60, rank=1, seconds=slow)

    assert set(written.findings()) == {SLOW}
    assert abs((written.verdict(SLOW).onset or 0) - 30) <= 3
    assert written.verdict(KL).severity == State.UNOBSERVED
    assert "not logged" in written.verdict(KL).evidence


def test_of_several_ranks_rank_0_counts(written: Written) -> None:
    written.add(sick(), rank=0)
    written.add(made_up_runs.run(60), rank=1)

    assert set(written.findings()) == {KL}


def test_a_loop_that_rank_0_does_not_have_is_judged_by_the_lowest_rank_that_has_it(written: Written) -> None:
    written.add(made_up_runs.run(60), rank=0)
    for rank, divergence in ((2, 0.01), (1, 7.0)):
        writer = process(written.folder, rank, started=STARTED)
        for step in range(1, 40):
            of_step = {"rl.loop.iteration": step, "rl.loop.name": "critic"}
            writer.event("rl.step", float(step), body={"kl": divergence + 1e-6 * step}, attributes=of_step)
        writer.write()

    assert [(one.code, one.loop) for one in written.verdicts() if one.is_finding] == [(KL, "critic")]


def test_what_follows_a_step_in_its_trace_is_no_part_of_its_time(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, started=STARTED)
    for step in range(1, 61):
        of_step, end = {"rl.loop.iteration": step}, 10.0 * step + (1.0 if step <= 40 else 4.0)
        root = writer.span("rl.loop", 10.0 * step, end, of_step)
        writer.span("rl.reward", 10.0 * step, end, {**of_step, "rl.phase": "reward"}, root)
        writer.span("rl.rank.step", 10.0 * step, end, of_step, root)
        # Takes more than the difference, and ends after the step.
        writer.span("rl.evaluate", end, end + (0.1 if step <= 40 else 6.0), {**of_step, "rl.phase": "evaluate"}, root)
    writer.write()

    replayed = Written(tmp_path / "run").collected()
    [place] = replay._chosen(replayed)
    assert {name for step in replay._steps(replayed, place) for name in step.phases} == {
        "rl.reward",
        "the time between steps",
    }


def test_each_attempt_is_judged_on_its_own_and_findings_of_earlier_ones_name_their_attempt(written: Written) -> None:
    written.add(sick(40, 20), attempt="0.0.0")
    written.add(made_up_runs.run(60), first=15, attempt="0.1.0", begins=100)

    found = written.verdicts()
    assert [(one.code, one.attempt) for one in found if one.is_finding] == [(KL, "")]
    assert [(one.severity, one.attempt) for one in found if one.code == KL][1:] == [(State.HEALTHY, "0.1.0")]


def test_steps_that_begin_again_in_one_process_are_judged_anew(written: Written) -> None:
    values = sick(40, 20)
    writer = process(written.folder, 0, started=STARTED)
    for number, (step, logged) in enumerate([*enumerate(values, 1), *enumerate(made_up_runs.run(30), 10)]):
        writer.event("rl.step", number + 1.0, body=logged, attributes={"rl.loop.iteration": step})
    writer.write()

    found = written.verdict(KL)
    assert (found.severity, found.onset, found.until) == (State.CRITICAL, 20, 40)


def test_values_that_are_no_numbers_and_records_without_a_step_are_no_trouble(written: Written) -> None:
    writer = process(written.folder, 0, started=STARTED)
    for step in range(1, 30):
        body = {"kl": 7.0 + 1e-6 * step, "loss": float("nan"), "reward": "high", "entropy": None, "grad_norm": True}
        writer.event("rl.step", float(step), body=body, attributes={"rl.loop.iteration": step})
        writer.event("rl.step", float(step), body=body, attributes={})
        writer.event("rl.step", float(step), body="text", attributes={"rl.loop.iteration": step})
    writer.write()

    assert set(written.findings()) == {KL, Code.NON_FINITE}


def _tell_of_divergence(writer: ProcessWriter) -> None:
    """Write the event that a live rule found a divergence of 7 nat."""
    said = {
        "rl.health.code": KL,
        "rl.health.state": "critical",
        "rl.health.previous_state": "healthy",
        "rl.health.onset_iteration": 11,
        "rl.health.metric": "kl",
        "rl.health.value": 7.0,
        "rl.health.threshold": 3.0,
        "rl.health.evidence": "kl is 7 nat, threshold 3 nat",
        "rl.loop.iteration": 13,
    }
    writer.event("rl.health.changed", 13.0, attributes=said)


def test_what_was_found_live_from_values_in_no_record_is_taken_from_the_events(written: Written) -> None:
    writer = process(written.folder, 0, started=STARTED)
    _tell_of_divergence(writer)
    writer.event("rl.step", 14.0, body={"entropy": 1.0}, attributes={"rl.loop.iteration": 14})
    writer.write()

    found = written.verdict(KL)
    assert (found.severity, found.onset, found.until, found.value) == (State.CRITICAL, 11, None, 7.0)
    assert found.evidence == "kl is 7 nat, threshold 3 nat"
    assert found.next_steps


def test_what_was_found_live_in_values_outside_of_steps_counts_beside_records_that_show_nothing(
    written: Written,
) -> None:
    writer = process(written.folder, 0, started=STARTED)
    for step in range(1, 30):
        writer.event("rl.step", float(step), body={"kl": 0.01}, attributes={"rl.loop.iteration": step})
    said = {
        "rl.health.code": KL,
        "rl.health.state": "critical",
        "rl.health.previous_state": "healthy",
        "rl.health.onset_iteration": 11,
        "rl.health.evidence": "kl is 50 nat, threshold 3 nat",
        "rl.loop.iteration": 13,
    }
    writer.event("rl.health.changed", 13.0, attributes=said)
    writer.write()

    found = written.verdict(KL)
    assert (found.severity, found.onset) == (State.CRITICAL, 11)
    assert found.evidence == "kl is 50 nat, threshold 3 nat"


def test_a_rule_that_found_nothing_in_values_of_gauges_is_said_to_have_judged_them(written: Written) -> None:
    writer = process(written.folder, 0, started=STARTED)
    for key in ("kl", "entropy", "reward"):
        writer.meter.create_gauge("rl.trainer.metric").set(0.01, {"rl.trainer.metric.key": key})
    for step in range(1, 30):
        writer.span("rl.rank.step", step, step + 1.0, {"rl.loop.iteration": step})
    writer.event("rl.health.final", 30.0, attributes={"rl.health.healthy": [KL], "rl.health.unobserved": []})
    writer.write()

    found = written.verdict(KL)
    assert (found.severity, found.evidence) == (
        State.HEALTHY,
        "judged while the program ran, by values in no record",
    )
    unjudged = written.verdict(Code.P4_ENTROPY_COLLAPSE)
    assert unjudged.severity == State.UNOBSERVED
    assert unjudged.evidence == "given by otel_rl.metric: judged only while the program runs, and it came to no verdict"
    assert "not logged" in written.verdict(Code.STALENESS).evidence


def test_the_events_of_a_run_whose_values_are_recorded_are_not_said_twice(written: Written) -> None:
    written.add(sick())
    writer = process(written.folder, 0, started=STARTED, rl__role="other")
    said = {"rl.health.code": KL, "rl.health.state": "critical", "rl.health.previous_state": "healthy"}
    writer.event("rl.health.changed", 13.0, attributes=said)
    writer.write()

    assert written.verdict(KL).evidence.startswith("kl is 7 nat, threshold 3 nat, 0.01 nat")


def test_the_command_tells_a_mistake_in_the_users_rules(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.add(sick())
    monkeypatch.setenv("OTEL_RL_HEALTH_RULES", str(tmp_path / "none.yaml"))
    settings.reset()
    report = write_report(written.folder, tmp_path)
    monkeypatch.delenv("OTEL_RL_HEALTH_RULES")
    settings.reset()

    assert [note for note in report.notes if "none.yaml: No such file or directory" in note]


def test_the_users_rules_hold_for_the_report_and_a_mistake_in_them_is_told(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.add(sick())
    rules = tmp_path / "rules.json"
    monkeypatch.setenv("OTEL_RL_HEALTH_RULES", str(rules))
    settings.reset()
    rules.write_text(json.dumps({"rules": {KL: False}}))
    without = written.findings()
    rules.write_text(json.dumps({"rules": {"P3": False}}))
    complaint, despite = replay.rules(written.collected())[1], written.findings()
    monkeypatch.setenv("OTEL_RL_HEALTH_RULES", "off")
    settings.reset()
    off = written.verdicts()
    monkeypatch.delenv("OTEL_RL_HEALTH_RULES")
    settings.reset()

    assert without == {}
    assert "P3 is no rule; did you mean P3_kl_explosion?" in complaint
    assert set(despite) == {KL}
    assert off == []


@pytest.fixture
def told_live(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Verdict | None]]:
    """Writes records of a divergence of 2 nat, and an event that tells of 7; judges them by the given limits."""
    writer = process(written.folder, 0, started=STARTED)
    for step in range(1, 30):
        writer.event("rl.step", float(step), body={"kl": 2.0}, attributes={"rl.loop.iteration": step})
    _tell_of_divergence(writer)
    writer.write()
    rules = tmp_path / "rules.json"

    def judge(given: Any) -> Verdict | None:
        rules.write_text(json.dumps({"rules": {KL: given}}))
        monkeypatch.setenv("OTEL_RL_HEALTH_RULES", str(rules))
        settings.reset()
        return next((one for one in written.verdicts() if one.code == KL), None)

    yield judge
    monkeypatch.undo()
    settings.reset()


def test_where_the_report_has_limits_of_its_own_what_was_found_live_by_others_does_not_count(
    told_live: Callable[..., Verdict | None],
) -> None:
    found = told_live({"kl_warning": 20, "kl_critical": 50})
    assert found is not None
    assert found.severity == State.HEALTHY


def test_a_rule_that_is_off_in_the_report_says_nothing_of_what_it_found_live(
    told_live: Callable[..., Verdict | None],
) -> None:
    assert told_live(False) is None


@pytest.mark.parametrize("limits", [True, {"kl_warning": 0.5}], ids=["usual", "the one that was passed is alike"])
def test_what_was_found_live_by_the_same_limits_keeps_what_it_has_cost_by_the_records(
    told_live: Callable[..., Verdict | None], limits: Any
) -> None:
    found = told_live(limits)
    assert found is not None
    assert (found.severity, found.evidence) == (State.CRITICAL, "kl is 7 nat, threshold 3 nat")
    assert found.cost > 0.9


def test_what_a_program_logs_itself_wins_though_its_rows_stand_first_in_the_file(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name / "0", None, started=STARTED)
    for step in range(20):
        where = {"rl.loop.iteration": step, "rl.trajectories.step": step, "rl.trajectories.source": "rollout"}
        rows = {"rl.rollout.id": [f"r-{step}"], "rl.rollout.status": ["finished"], "rl.rollout.reward": [1.0]}
        writer.event("rl.trajectories", step + 0.5, rows, where)
    for step in range(20):
        writer.event("rl.step", step + 0.6, {"reward": step / 20}, {"rl.loop.iteration": step})
    writer.write()
    collected = Collected(Reader(find_run(tmp_path / tmp_path.name)), load()).read(lambda _: None)
    [no_signal] = [one for one in replay.verdicts(collected) if one.code == "no_signal"]
    assert not no_signal.is_finding
    reward = scalars.of_run(collected).curve("reward")
    assert reward is not None
    assert reward.y == [step / 20 for step in range(20)]


@pytest.mark.parametrize(("share", "title"), [(0.75, "Partial update"), (1.0, "No update")])
def test_updates_that_leave_out_some_parameters_are_not_called_none(written: Written, share: float, title: str) -> None:
    written.add([{"torch/without_gradient": share, "torch/trainable_parameters": 4.0}] * 30)
    (found,) = (one for one in examined(written.folder).findings if one.code == Code.NO_UPDATE)
    assert found.text.startswith(f"{title} since step 1: ")
