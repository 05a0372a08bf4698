"""Findings: the cause and not what follows from it, ranked by what it costs, and nothing below a notable effect."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, Job, examined, rollout
from unit.report.synthetic_run import process

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.copies import COPY
from otel_rl.flight_recorder.ring import create
from otel_rl.process import exit_records, lifetime
from otel_rl.ranks.postmortem import examine, text
from otel_rl.report import write_report
from otel_rl.report.core import flight_rings, output, sentences
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.finding import CheckState
from otel_rl.report.subjects import load
from otel_rl.report.subjects.overview import examine as overview_of
from otel_rl.store import reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.report.core.finding import Finding, Overview

PHASES = {"sample": 0.4, "reward": 0.02, "train": 0.2}


def _phases(_step: int, _rank: int) -> dict[str, float]:
    return PHASES


def _grave(found: Overview) -> list[Finding]:
    return [one for one in found.findings if one.severity != "notice"]


def test_a_function_that_becomes_slow_on_one_rank_is_one_finding_with_its_symptoms(tmp_path: Path) -> None:
    def functions(step: int, rank: int) -> dict[str, float]:
        return {"score_a": 0.02, "score_b": 0.15 if rank == 1 and step >= 15 else 0.0004}

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, _phases, functions, noise=0.0).write()))
    assert one.text.startswith(
        "Reward function score_b on rank 1 takes 150 ms since step 15 (400 µs before; rank 0 unchanged): "
    )
    assert one.text.endswith(": all ranks lose 19 % of the step.")
    assert (one.section, one.chart, one.onset, one.ranks) == ("rewards", "reward-seconds", 15, [1])
    assert one.cost == pytest.approx(0.15 / 0.79, abs=0.01)
    assert {symptom.code for symptom in one.symptoms} >= {"slower_step", "late_rank", "slower_collectives"}


@pytest.mark.parametrize(("source", "severity"), [("guessed", "warning"), ("given", "critical")])
def test_pauses_between_guessed_steps_are_said_to_be_part_of_them_and_are_not_critical(
    tmp_path: Path, source: str, severity: str
) -> None:
    """Cells of a notebook, one step in each: what lies between them is time of the steps."""
    writer = process(tmp_path / "run", 0, started=STARTED)
    at = 1.0
    for step in range(1, 81):
        length = 0.1 if step <= 60 else 1.0
        writer.span("rl.rank.step", at, at + length, {"rl.loop.iteration": step, "rl.loop.source": source})
        at += length
    writer.write()
    [one] = [found for found in examined(tmp_path / "run").findings if found.section == "steps"]
    assert one.text.startswith("Time outside of all phases is 1 s a step since step 61 (100 ms before)")
    assert one.severity == severity
    assert one.evidence == ([sentences.PAUSES] if source == "guessed" else [])
    assert {symptom.code for symptom in one.symptoms} == {"slower_step", "P7_slow_step"}


class _KilledRank(Job):
    """Rank 1 has no step after the 20th."""

    def _step(self, step: int, rank: int, *values: Any) -> None:
        if rank == 0 or step <= 20:
            super()._step(step, rank, *values)


def test_a_rank_without_steps_since_a_change_is_not_called_unchanged(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.8 if rank == 0 and step >= 22 else 0.4}

    found = examined(_KilledRank(tmp_path / tmp_path.name, phases).write()).findings
    [one] = [finding for finding in found if finding.code == "slower_phase"]
    assert "since step 22" in one.text
    assert "unchanged" not in one.text


def test_of_many_ranks_the_slow_ones_are_named_and_the_others_counted(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.8 if rank in (2, 5) and step >= 20 else 0.4}

    one, *others = _grave(examined(Job(tmp_path / tmp_path.name, phases, ranks=8).write()))
    assert one.text.startswith("Phase sample on ranks 2, 5 takes 79")
    assert "since step 20 (" in one.text
    assert "; 6 ranks unchanged): all ranks lose 3" in one.text
    assert others == []


def test_what_becomes_slower_on_all_ranks_is_said_of_all(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.4 if step < 25 else 1.6}

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, phases).write()))
    assert one.text.startswith("Phase sample on all ranks takes 1.5")
    assert one.severity == "critical"
    assert one.text.endswith("% of the step.")


def test_a_little_more_work_of_a_rank_whose_steps_vary_is_named_and_not_the_network(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        varies = 0.15 * (step * 7 % 10) / 10
        return {**PHASES, "sample": 0.3 + varies + (0.15 if rank == 1 and step >= 21 else 0.0)}

    one, *others = _grave(examined(Job(tmp_path / tmp_path.name, phases, noise=0.005).write()))
    assert one.code == "slower_rank"
    assert one.text.startswith("Work outside of collectives on rank 1 takes ")
    assert "since step 21 (" in one.text
    assert "; rank 0 unchanged): all ranks lose 2" in one.text
    assert one.look_at == ["Host, device and data of rank 1, against those of the others."]
    assert {symptom.code for symptom in one.symptoms} >= {"slower_collectives", "late_rank"}
    assert not any("network" in said for symptom in one.symptoms for said in symptom.look_at)
    assert others == []


def test_a_change_that_is_over_says_from_when_to_when(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.9 if 11 <= step <= 20 else 0.4}

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, phases).write()))
    assert "took 9" in one.text
    assert " from step 11 to 20 (" in one.text


def test_a_late_rank_all_along_is_named_with_the_place(tmp_path: Path) -> None:
    def functions(_step: int, rank: int) -> dict[str, float]:
        return {"score_a": 0.02, "score_b": 0.2 if rank == 1 else 0.02}

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, _phases, functions).write()))
    assert one.text.startswith("Rank 1 makes the others wait: most work of its own in 40 of 40 steps, 17")
    assert "in reward function score_b (200 ms a step, 20 ms on the fastest)" in one.text


@pytest.mark.parametrize(("marks", "what"), [(False, "Time between steps on rank 0 is"), (True, "Phase data_wait on")])
def test_data_that_a_rank_waits_for_between_steps_is_named_and_not_the_rank_that_waits_for_it(
    tmp_path: Path, marks: bool, what: str
) -> None:
    def fetching(step: int, rank: int) -> float:
        return 0.4 if rank == 0 and step >= 15 else 0.01

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, _phases, fetching=fetching, marks=marks).write()))
    assert one.text.startswith(what)
    assert "400 ms a step since step 15 (10 ms before; rank 1 unchanged): all ranks lose 38 % of the step." in one.text
    assert (one.code, one.ranks, one.onset) == ("slower_phase", [0], 15)
    assert {symptom.code for symptom in one.symptoms} >= {"slower_step", "slower_collectives"}


def test_a_phase_that_only_every_second_step_has_is_not_said_to_take_so_long_a_step(tmp_path: Path) -> None:
    """As in a loop that makes two optimizer steps with each batch, whose steps are guessed."""

    def phases(step: int, rank: int) -> dict[str, float]:
        loads = 0.4 if rank == 1 and step >= 15 else 0.01
        return PHASES | ({"data_wait": loads} if step % 2 else {})

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, phases).write()))
    assert one.text.startswith("Phase data_wait on rank 1 takes 39")
    assert " ms in 13 of 25 steps since step 15 (10." in one.text
    [late] = [symptom for symptom in one.symptoms if symptom.code == "late_rank"]
    lost, own = (float(number) for number in re.findall(r"([\d.]+) ms (?:more per step|a step)", late.text))
    assert own == pytest.approx(lost, rel=0.1)


@pytest.mark.parametrize("others", ["warm-up", "every second step", "less and less"])
def test_what_makes_steps_longer_costs_them_that_much_however_long_others_were_before(
    tmp_path: Path, others: str
) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        samples = {
            "warm-up": 4.0 if step <= 12 else 1.0,
            "every second step": 2.0 if step % 2 else 0.2,
            "less and less": max(3.0 - 0.1 * step, 1.0),
        }
        return {"sample": samples[others], "reward": 2.5 if step >= 21 else 0.1, "train": 0.2}

    [one] = _grave(examined(Job(tmp_path / tmp_path.name, phases, ranks=1).write()))
    assert (one.code, one.severity, one.onset) == ("slower_phase", "critical", 21)
    assert one.text.startswith("Phase reward takes 2.")


@pytest.mark.parametrize(("scale", "is_said"), [(1.0, True), (0.1, False)])
def test_a_phase_that_has_cost_less_than_three_seconds_altogether_may_be_a_busy_machine(
    tmp_path: Path, scale: float, is_said: bool
) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {name: seconds * scale for name, seconds in PHASES.items()} | {
            "sample": (0.4 if step < 20 else 0.8) * scale
        }

    found = _grave(examined(Job(tmp_path / tmp_path.name, phases).write()))
    assert [one.code for one in found] == ["slower_phase"] * is_said


def test_what_costs_little_is_not_said(tmp_path: Path) -> None:
    def functions(step: int, rank: int) -> dict[str, float]:
        return {"score_b": 0.02 if rank == 1 and step >= 15 else 0.0004}

    assert _grave(examined(Job(tmp_path / tmp_path.name, _phases, functions).write())) == []


def test_a_run_without_signal_comes_before_a_late_rank_that_costs_less(tmp_path: Path) -> None:
    def phases(_step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.45 if rank == 1 else 0.4}

    def logged(_step: int) -> dict[str, float]:
        return {"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "kl": 0.001, "entropy": 1.2}

    first, *others = _grave(examined(Job(tmp_path / tmp_path.name, phases, logged=logged, steps=60).write()))
    assert first.code == "no_signal"
    assert "late_rank" in [one.code for one in others]


def _lose_rank_1(tmp_path: Path) -> None:
    """Write a job of which rank 1 vanishes in step 12, and rank 0 fails because of it."""
    job = Job(tmp_path / tmp_path.name, _phases, steps=12)
    job.write()
    survivor, vanished = job.writers
    values = {"exception.type": "DistBackendError", "exception.message": "closed", "rl.loop.iteration": 12}
    survivor.event("rl.process.exception", 30, attributes=values, severity=21)
    survivor.clean_exit = vanished.clean_exit = False
    vanished.ended = None
    survivor.write()
    vanished.write()


def test_the_rank_that_stopped_first_comes_before_those_that_failed_because_of_it(tmp_path: Path) -> None:
    _lose_rank_1(tmp_path)
    first, *others = _grave(examined(tmp_path / tmp_path.name))
    assert first.text.startswith("rank 1 has no end recorded; last sign 20")
    assert [symptom.text for symptom in first.symptoms] == [
        "rank 0 failed: DistBackendError: closed; the last step begun was 12."
    ]
    # Only the moments of their last exports differ.
    order = "Which of them ended first is not known: no heartbeat and no exit record shows it."
    assert first.evidence[0] == order
    assert others == []


def test_a_rank_that_was_killed_after_the_copy_of_its_ring_stopped_first(tmp_path: Path) -> None:
    _lose_rank_1(tmp_path)
    _leave_a_copy_of_a_killed_rank(tmp_path)

    [first] = _grave(examined(tmp_path / tmp_path.name))
    assert first.text.startswith("rank 1 was killed by SIGKILL (reported by a parent")
    assert first.evidence[0].startswith("It stopped first: its last sign is ")
    assert [symptom.text for symptom in first.symptoms] == [
        "rank 0 failed: DistBackendError: closed; the last step begun was 12."
    ]
    assert "step 3" not in first.text


@pytest.mark.parametrize("rank", [None, 1])
def test_what_ended_the_run_comes_first_where_nobody_is_known_to_wait(tmp_path: Path, rank: int | None) -> None:
    run = tmp_path / tmp_path.name
    died = process(run, rank, started=STARTED, process__pid=lifetime.own().pid)
    died.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 7})
    values = {"exception.type": "ValueError", "exception.message": "broken data", "rl.loop.iteration": 7}
    died.event("rl.process.exception", 2, attributes=values, severity=21)
    died.clean_exit = False
    died.write()
    _leave_an_ended_ring(died.folder, rank, "uncaught ValueError")
    if rank is not None:
        other = process(run, 0, started=STARTED)
        other.write()
        _leave_an_ended_ring(other.folder, 0, "")

    overview = examined(run)
    [first] = _grave(overview)
    who = f"trainer {lifetime.own().pid}" if rank is None else "rank 1"
    assert first.text == f"{who} failed: ValueError: broken data; the last step begun was 7."
    waits = [] if rank is None else ["No rank is known to wait for another."]
    assert first.evidence == waits
    # The section on how the run ended says the same first.
    postmortem = flight_rings.read(reader.find_run(run)).postmortem
    assert postmortem is not None
    label = f"process {lifetime.own().pid}" if rank is None else "rank 1"
    assert text.verdict(postmortem)[0] == f"{label} after step 7: uncaught ValueError"
    assert len(text.verdict(postmortem)) == 1 + len(waits)


def _leave_an_ended_ring(folder: Path, rank: int | None, reason: str) -> None:
    rings = folder.parent.parent / f"rings-{rank}"
    rings.mkdir()
    ring = create(rings, "otel-rl-copied")
    ring.identify(folder.parent.name, "0.0.0", folder.name, (-1 if rank is None else rank, 0 if rank is None else 2, 0))
    ring.end(ring.begin(layout.STEP, "", 7))
    ring.finish(reason)
    (folder / COPY).write_bytes(ring.path.read_bytes())


def test_a_process_without_a_rank_that_was_killed_is_said_with_its_step(tmp_path: Path) -> None:
    killed = process(tmp_path / tmp_path.name, None, started=STARTED, process__pid=lifetime.own().pid)
    killed.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 3})
    killed.clean_exit = False
    killed.write()
    ring = create(tmp_path, f"otel-rl-{tmp_path.name}-killed")
    ring.identify(tmp_path.name, "0.0.0", "node", (-1, 0, 0))
    ring.begin(layout.STEP, "", 3)
    seen = exit_records.make(lifetime.own(), -15, None, "a parent", None)
    line = json.dumps({**asdict(seen), "lifetime": list(seen.lifetime)})
    (tmp_path / f"otel-rl-{tmp_path.name}-node.exits").write_text(line)
    found = Collected(reader.Reader(reader.find_run(killed.folder.parent)), load())
    found.read(lambda _: None)
    found.rings = flight_rings.FlightRings(None, examine(killed.folder.parent, tmp_path))
    [first] = _grave(overview_of(found))
    assert first.text.startswith(f"trainer {lifetime.own().pid} was killed by SIGTERM")
    assert first.text.endswith(", during step 3.")


def test_ranks_that_ended_in_different_ways_are_told_one_by_one(tmp_path: Path) -> None:
    job = Job(tmp_path / tmp_path.name, _phases, steps=12)
    job.write()
    for writer in job.writers:
        writer.clean_exit, writer.ended = False, None
        writer.write()
    _leave_a_copy_of_a_killed_rank(tmp_path)

    [one] = _grave(examined(tmp_path / tmp_path.name))
    assert one.text.startswith("rank 1 was killed by SIGKILL")
    assert [symptom.text.partition(";")[0] for symptom in one.symptoms] == ["rank 0 has no end recorded"]


def _leave_a_copy_of_a_killed_rank(folder: Path) -> None:
    """Of rank 1 in step 3, with what a parent says of its end."""
    rings = folder / "rings"
    rings.mkdir()
    ring = create(rings, "otel-rl-copied")
    ring.identify(folder.name, "0.0.0", "node", (1, 2, 1))
    ring.begin(layout.STEP, "", 3)
    [written] = (file.parent for file in folder.glob("**/manifest.json") if json.loads(file.read_text())["rank"] == 1)
    (written / COPY).write_bytes(ring.path.read_bytes())
    seen = exit_records.make(lifetime.own(), -9, None, "a parent", None)
    line = json.dumps({**asdict(seen), "lifetime": list(seen.lifetime)})
    (written.parent / "otel-rl-run-node.exits").write_text(line)


def test_the_report_of_a_hang_stands_below_how_the_run_ended(tmp_path: Path) -> None:
    job = Job(tmp_path / tmp_path.name, _phases, steps=12)
    job.write()
    hung, _ = job.writers
    body = 'no progress for 5 s in step 12 (reward)\nthread MainThread:\n  File "job.py", line 3, in score'
    hung.event("rl.hang", 30, body, {"rl.loop.iteration": 12, "rl.hang.duration": 5.0}, severity=17)
    hung.write()
    [one] = _grave(examined(tmp_path / tmp_path.name))
    assert (one.code, one.text) == ("hang", "rank 0: no progress for 5 s in step 12 (reward).")

    for writer in job.writers:
        writer.clean_exit, writer.ended = False, None
        writer.write()
    [one] = _grave(examined(tmp_path / tmp_path.name))
    assert one.code == "ended"
    assert "rank 0: no progress for 5 s in step 12 (reward)." in [symptom.text for symptom in one.symptoms]


@pytest.mark.parametrize(("over", "lasted"), [(34, "34 s"), (None, "1 min 28 s")])
def test_a_hang_is_told_with_the_time_that_it_lasted_and_not_with_its_limit(
    tmp_path: Path, over: int | None, lasted: str
) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    body = "no progress for 15 s in step 24, in the wait for a batch of its data loader"
    writer.event("rl.hang", 20, body, {"rl.hang.duration": 15.0}, severity=17)
    writer.event("rl.hang.end" if over else "other", 5 + (over or 88), "goes on", {})
    writer.event("other", 100 if over else 93, "later", {})
    writer.clean_exit, writer.ended = False, None
    writer.write()
    [ended] = examined(tmp_path).findings
    [hang] = ended.symptoms
    assert f"no progress for {lasted} in step 24, in the wait" in hang.text


def test_what_has_a_finding_is_not_among_what_was_checked_without_one(tmp_path: Path) -> None:
    writer, at = process(tmp_path / tmp_path.name, None, started=STARTED), 0.0
    for step in range(1, 25):
        error = "TimeoutError" if step >= 13 and step % 6 else None
        at = rollout(writer, step, 0, at, [_tool("run_code", 0.01, error)])
    writer.write()
    overview = examined(tmp_path / tmp_path.name)
    [one] = _grave(overview)
    assert one.text == ("Tool run_code fails in 83 % of its calls since step 13 (10 of 12: TimeoutError; 0 % before).")
    names = [check.what for check in output.without_finding(overview, CheckState.CHECKED)]
    assert "failing tools" in output.as_json(overview)["checked"]
    assert not {"failing tools", "errors"} & set(names)
    assert {"rollouts that become slower", "tools that become slower"} <= set(names)


def _tool(name: str, seconds: float, error: str | None = None) -> tuple[str, float, dict[str, str | None]]:
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "error": error}
    return f"execute_tool {name}", seconds, values


def test_of_two_tools_the_slower_one_is_no_finding(tmp_path: Path) -> None:
    writer, at = process(tmp_path / tmp_path.name, None, started=STARTED), 0.0
    for step in range(1, 21):
        at = rollout(writer, step, 0, at, [_tool("add", 0.01), _tool("search", 0.5)])
    writer.write()
    assert _grave(examined(tmp_path / tmp_path.name)) == []


def test_many_short_calls_that_become_slower_are_named_and_not_called_time_outside_of_phases(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    for step in range(1, 41):
        begin = at = 2.0 * step
        for number in range(48):
            at = rollout(writer, step, number, at, [_tool("search", 0.006 if step < 20 else 0.014)])
        writer.span("rl.rank.step", begin, at, {"rl.loop.iteration": step})
    writer.write()
    [found] = _grave(examined(tmp_path / tmp_path.name))
    assert "Tool search takes 14 ms a call since step 20 (6 ms before)" in found.text


def test_servers_of_one_model_are_compared(tmp_path: Path) -> None:
    writer, at = process(tmp_path / tmp_path.name, None, started=STARTED), 0.0
    for step in range(1, 21):
        for number, seconds in enumerate((0.1, 0.4)):
            values = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "server.address": f"10.0.0.{number}",
                "server.port": 8000,
            }
            at = rollout(writer, step, number, at, [("chat m", seconds, values)])
    writer.write()
    [one] = _grave(examined(tmp_path / tmp_path.name))
    assert one.text.startswith(
        "Model m at 10.0.0.1:8000 takes 400 ms a call, 4 times as long as 10.0.0.0:8000 (100 ms)"
    )
    assert one.text.endswith(": 60 % of the rollouts' time.")


def test_a_tool_outside_of_all_steps_is_compared_over_time(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    for second in range(60):
        _, seconds, values = _tool("search", 0.1 if second < 30 else 0.6)
        values.pop("error")
        writer.span("execute_tool search", second, second + seconds, values)
    writer.write()
    [one] = _grave(examined(tmp_path / tmp_path.name))
    assert "Tool search takes 600 ms a call since 30 s after the start (100 ms before): 50 % of the time." in one.text
    assert one.onset is None


def test_few_steps_are_said_to_be_too_few(tmp_path: Path) -> None:
    found = examined(Job(tmp_path / tmp_path.name, _phases, steps=4).write())
    [check] = [one for one in found.checks if one.what == "steps and phases that become slower"]
    assert (check.state, check.detail) == ("too_little_data", "needs 16 steps, has 4")
    assert found.findings == []


def test_the_page_links_a_finding_to_its_chart_which_marks_the_step(tmp_path: Path) -> None:
    def functions(step: int, rank: int) -> dict[str, float]:
        return {"score_b": 0.15 if rank == 1 and step >= 15 else 0.0004}

    output = write_report(Job(tmp_path / tmp_path.name, _phases, functions).write(), tmp_path / "page.html").output
    page = output.read_text(encoding="utf-8")
    assert '<a href="#chart-reward-seconds">Chart</a> · <a href="#rewards">Rows</a>' in page
    assert '<figure id="chart-reward-seconds">' in page
    assert "dashed: from step 15 on" in page
    assert '"location":14.5' in page
    assert "What comes with it:" in page


def test_a_checkpoint_of_one_rank_makes_no_late_rank(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.41 if rank == 0 else 0.4, "checkpoint": 6.0 if (step, rank) == (20, 0) else 0.0}

    assert _grave(examined(Job(tmp_path / tmp_path.name, phases, noise=0.0).write())) == []


def test_a_little_more_of_everything_is_not_said(tmp_path: Path) -> None:
    def phases(step: int, _rank: int) -> dict[str, float]:
        return {name: seconds * (1.3 if step >= 20 else 1.0) for name, seconds in PHASES.items()}

    assert _grave(examined(Job(tmp_path / tmp_path.name, phases).write())) == []


def _calls(tmp_path: Path, values: Callable[[int], dict[str, object]]) -> list[Finding]:
    writer, at = process(tmp_path / tmp_path.name, None, started=STARTED), 0.0
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "server.address": "10.0.0.1"}
    for step in range(1, 25):
        at = rollout(writer, step, 0, at, [("chat m", 0.2, {**model, **values(step)})])
    writer.write()
    return _grave(examined(tmp_path / tmp_path.name))


def test_calls_that_are_retried_all_along_are_said_though_nothing_changed(tmp_path: Path) -> None:
    [one] = _calls(tmp_path, lambda step: {"rl.inference.retries": step % 2})
    assert one.text == "50 % of the calls of model m at 10.0.0.1 were retried."
    assert (one.code, one.chart) == ("retried_model", "model-retried")


def test_calls_that_fail_are_said_with_their_error_and_since_when(tmp_path: Path) -> None:
    [one] = _calls(tmp_path, lambda step: {"error": "InternalServerError" if step >= 13 and step % 6 else None})
    assert (
        one.text == "83 % of the calls of model m at 10.0.0.1 failed since step 13 (InternalServerError; 0 % before)."
    )
    assert [symptom.code for symptom in one.symptoms] == ["errors"]


def test_one_failed_call_is_no_finding_of_a_model(tmp_path: Path) -> None:
    found = _calls(tmp_path, lambda step: {"error": "APIConnectionError" if step == 7 else None})
    assert found == []


# -- one fact is one finding -------------------------------------------------------------------------------------------


def test_what_two_rules_say_of_one_value_at_once_is_one_finding(tmp_path: Path) -> None:
    job = Job(tmp_path / tmp_path.name, _phases, steps=60)
    job.logged = lambda step: {"kl": 0.01 + step / 1e4 if step < 30 else 7.0}
    [one] = _grave(examined(job.write()))
    assert (one.code, [symptom.code for symptom in one.symptoms]) == (
        "P3_kl_explosion",
        ["kl_estimate", "constant_value"],
    )


def test_ranks_that_make_no_progress_in_one_step_are_one_finding(tmp_path: Path) -> None:
    job = Job(tmp_path / tmp_path.name, _phases)
    job.write()
    for step in (12, 30):
        for writer, phase in zip(job.writers, ("train", "sample"), strict=True):
            body = f"no progress for 5 s in step {step} ({phase})"
            writer.event("rl.hang", step, body, {"rl.loop.iteration": step}, severity=17)
    for writer in job.writers:
        writer.write()
    found = _grave(examined(tmp_path / tmp_path.name))
    assert [(one.code, one.onset, len(one.symptoms)) for one in found] == [("hang", 12, 1), ("hang", 30, 1)]


def test_errors_that_several_failing_tools_explain_are_said_with_the_one_that_has_most(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    for at in range(12):
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": ("search", "shell", "shell")[at % 3]}
        writer.span(
            f"execute_tool {tool['gen_ai.tool.name']}", at, at + 0.5, {**tool, "error.type": f"e{at}"}, error="e"
        )
    writer.span("other", 20, 21, error="other")
    writer.write()
    found = {one.subject: one for one in _grave(examined(tmp_path / tmp_path.name))}
    assert {name: [part.code for part in one.symptoms] for name, one in found.items()} == {
        "shell": ["errors"],
        "search": [],
    }


def test_a_failed_step_is_told_without_the_name_of_its_span(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, None, started=STARTED)
    writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 1}, error="ValueError")
    writer.write()
    assert [one.text for one in examined(tmp_path).findings] == ["1 failed span: ValueError in a step."]
