"""Several attempts and loops in one folder: their steps have the same numbers, and are not taken for each other's."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanContext
from support.reward_readers import tables_of
from unit.report.made_up_jobs import STARTED, Job, context, examined, rollout
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.report import write_report
from otel_rl.report.core import output
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.loops import Loops
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects import load
from otel_rl.report.subjects.calls import lines, rollouts
from otel_rl.report.subjects.training import scalars
from otel_rl.store.reader import Process, Reader, Span, find_run

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
PROCESS = Process("p")


def read(folder: Path) -> Collected:
    return Collected(Reader(find_run(folder)), load()).read(lambda _: None)


def sampling(seconds: float) -> Any:
    return lambda _step, _rank: {"sample": seconds, "train": 0.2}


def means(collected: Collected, phase: str, rank: int = 0) -> set[float]:
    return {round(mean, 3) for mean in collected.steps.parts[phase, rank].means}


@pytest.mark.parametrize(("first", "second"), [("0.0.0", "0.1.0"), ("0.9.0", "0.10.0"), ("0.1.7", "1.0.0")])
def test_a_restarted_attempt_is_neither_merged_nor_averaged_with_the_one_before(
    tmp_path: Path, first: str, second: str
) -> None:
    folder = tmp_path / "run"
    for attempt, begins, seconds in ((first, 0.0, 0.4), (second, 100.0, 1.2)):
        job = Job(folder, sampling(seconds), attempt=attempt, begins=begins, noise=0.0)
        job.logged = lambda step, seconds=seconds: {"reward": seconds + step % 2}
        job.write()
    collected = read(folder)

    assert means(collected, "sample") == {1.2}
    assert {rank: totals.steps.count for rank, totals in collected.steps.ranks.items()} == {0: 40, 1: 40}
    assert collected.steps.lengths.cell.mean == pytest.approx(1.4)
    [curve] = [curves[0] for panel, curves in scalars.of_run(collected).panels() if panel.title == "Reward"]
    assert (curve.x, set(curve.y)) == ([float(step) for step in range(1, 41)], {1.2, 2.2})
    assert [one for one in examined(folder).findings if one.severity != "notice"] == []


def test_a_resumed_attempt_that_made_few_steps_is_shown_and_the_longer_one_before_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job(folder, sampling(0.4), ranks=1).write()
    Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=100.0, first=31, steps=5).write()
    collected = read(folder)

    assert (collected.steps.last_iteration, collected.steps.lengths.cell.count) == (35, 5)
    assert [stretch.attempt for stretch in collected.loops.others()] == ["0.0.0"]
    page = write_report(folder, tmp_path / "page.html").output.read_text(encoding="utf-8")
    assert "Charts over steps show this alone: attempt 0.1.0." in page
    assert "31 to 35" in page
    assert "1 to 40" in page


def test_what_became_slow_in_an_earlier_attempt_is_said_with_the_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job(folder, lambda step, _: {"sample": 0.4 if step < 15 else 1.6, "train": 0.2}, ranks=1, noise=0.0).write()
    Job(folder, sampling(0.4), ranks=1, attempt="1.0.0", begins=100.0).write()

    [one] = [one for one in examined(folder).findings if one.code == "slower_phase"]
    assert one.text.startswith("Phase sample takes 1.6 s a step since step 15")
    assert one.text.endswith(" (attempt 0.0.0).")
    assert (one.onset, one.chart) == (15, "")


def test_an_attempt_that_failed_before_the_last_one_is_a_notice(tmp_path: Path) -> None:
    folder = tmp_path / tmp_path.name
    for attempt, begins, reason in (("0.0.0", 0, "RuntimeError"), ("0.1.0", 100, None)):
        writer = process(folder, 0, started=STARTED + begins * 1_000_000_000, rl__run__attempt=attempt)
        writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 1})
        writer.exit_reason, writer.clean_exit, writer.ended = reason, reason is None, writer.at(3)
        writer.write()
    overview = examined(folder)
    [one] = [found for found in overview.findings if found.code == "earlier_attempt"]
    assert one.severity == "notice"
    assert one.text == (
        "Attempt 0.0.0 ended before this one: rank 0 failed: RuntimeError, after step 1; the next one began"
        " 1 min 37 s later with step 1."
    )
    assert "errors (" not in output.checked_without_finding(overview)


@pytest.mark.parametrize(
    ("status", "said"), [("SIGTERM", "was stopped by SIGTERM, after step 30"), ("", "ended in order")]
)
def test_a_restart_is_told_however_the_attempt_before_ended(tmp_path: Path, status: str, said: str) -> None:
    folder = tmp_path / tmp_path.name
    job = Job(folder, sampling(0.4), ranks=1, steps=30)
    job.write()
    [writer] = job.writers
    writer.event("rl.run.end", 30, attributes={"rl.run.end.signal": status} if status else {})
    writer.ended, writer.clean_exit = writer.at(30), not status
    writer.write()
    Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=40.0, first=31, steps=30).write()
    [one] = [found for found in examined(folder).findings if found.code == "earlier_attempt"]
    assert one.text.startswith(f"Attempt 0.0.0 ended before this one: rank 0 {said}")
    assert one.text.endswith("; the next one began 10 s later with step 31.")


@pytest.mark.parametrize(
    ("rate", "first", "is_found"),
    [
        pytest.param(lambda step: min(step - 30, 10) / 1e4, 31, True, id="the schedule of the first steps again"),
        pytest.param(lambda step: min(step, 10) / 1e4, 31, False, id="the schedule goes on"),
        pytest.param(lambda step: min(step, 10) / 1e4, 1, False, id="the training begins anew"),
        pytest.param(lambda _: 1e-3, 31, False, id="a constant rate"),
    ],
)
def test_an_attempt_that_goes_on_with_a_fresh_schedule_is_a_warning(
    tmp_path: Path, rate: Any, first: int, *, is_found: bool
) -> None:
    folder = tmp_path / tmp_path.name
    old = Job(folder, sampling(0.4), ranks=1, steps=30)
    old.logged = lambda step: {"train/learning_rate": min(step, 10) / 1e4}
    old.write()
    new = Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=40.0, first=first, steps=30)
    new.logged = lambda step: {"train/learning_rate": rate(step)}
    new.write()
    found = [one for one in examined(folder).findings if one.code == "resume_lost_state"]
    assert [(one.severity, one.chart) for one in found] == [("warning", "train/learning_rate")] * is_found
    if is_found:
        assert "began at 0.0001 again, as it did at first, where the attempt before had reached 0.001" in found[0].text


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_attempt_that_goes_on_without_the_weights_is_a_warning(tmp_path: Path, *, is_kept: bool) -> None:
    folder, learned = tmp_path / tmp_path.name, 30 if is_kept else 0
    old = Job(folder, sampling(0.4), ranks=1, steps=30)
    old.logged = lambda step: {"reward": 1 + 0.02 * step + 0.01 * (step % 3), "loss": 0.1 * (step % 4)}
    old.write()
    new = Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=40.0, first=31, steps=30)
    new.logged = lambda step: {"reward": 1 + 0.02 * (step - 30 + learned), "loss": 0.1 * (step % 4)}
    new.write()
    found = [one for one in examined(folder).findings if one.code == "resume_lost_weights"]
    assert [(one.severity, one.chart, one.onset) for one in found] == [("warning", "reward", 31)] * (not is_kept)
    if found:
        assert found[0].text == (
            "The attempt that went on with step 31 does not have the weights of the one before: reward is 1.05 in its"
            " first log calls, as at the first begin (1.06); the one before had come to 1.585."
        )


@pytest.mark.parametrize("lost", [0, 18])
def test_an_attempt_that_goes_on_with_an_older_checkpoint_is_a_warning(tmp_path: Path, lost: int) -> None:
    folder = tmp_path / tmp_path.name
    old = Job(folder, sampling(0.4), ranks=1, steps=36)
    old.logged = lambda step: {"loss": 2.5 * 0.97**step + 0.01 * (step % 3), "reward": 0.02 * step + 0.05 * (step % 4)}
    old.write()
    new = Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=50.0, first=37, steps=30)
    new.logged = lambda step: old.logged(step - lost)
    new.write()
    found = [one for one in examined(folder).findings if one.code == "resume_lost_weights"]
    assert [(one.severity, one.chart, one.onset) for one in found] == [("warning", "loss", 37)] * bool(lost)
    if found:
        assert re.match(
            r"The attempt that went on with step 37 has older weights than the one before had at its end: loss is"
            r" 1\.3\d+ in its first log calls, as about 1[3-9] log calls before the end, where it was 0\.8\d+\.",
            found[0].text,
        )


@pytest.mark.parametrize("again", ["explodes", "kl"])
def test_a_value_that_overshoots_its_begin_or_a_divergence_alone_are_no_older_weights(
    tmp_path: Path, again: str
) -> None:
    folder = tmp_path / tmp_path.name

    def logged(step: int, *, is_new: bool) -> dict[str, float]:
        loss = 30.0 if is_new and again == "explodes" else 2.5 * 0.97**step + 0.01 * (step % 3)
        since = step - 36 if is_new and again == "kl" else step
        return {"loss": loss, "reward": 0.02 * step, "kl": 0.002 * since}

    old = Job(folder, sampling(0.4), ranks=1, steps=36)
    old.logged = lambda step: logged(step, is_new=False)
    old.write()
    new = Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=50.0, first=37, steps=30)
    new.logged = lambda step: logged(step, is_new=True)
    new.write()
    codes = {one.code for one in examined(folder).findings}
    assert "resume_lost_weights" not in codes
    assert "resume_other_level" in codes


@pytest.mark.parametrize(("again", "is_found"), [(30.0, True), (0.7, False)])
def test_a_value_that_a_restart_has_made_manifold_is_a_warning(tmp_path: Path, again: float, *, is_found: bool) -> None:
    folder = tmp_path / tmp_path.name
    old = Job(folder, sampling(0.4), ranks=1, steps=30)
    old.logged = lambda step: {"reward/scaled_mean": 0.6 + 0.05 * (step % 3), "loss": 1.0 + 0.1 * (step % 4)}
    old.write()
    new = Job(folder, sampling(0.4), ranks=1, attempt="0.1.0", begins=40.0, first=31, steps=30)
    new.logged = lambda step: {"reward/scaled_mean": again + 0.05 * (step % 3), "loss": 1.0 + 0.1 * (step % 4)}
    new.write()
    found = [one for one in examined(folder).findings if one.code == "resume_other_level"]
    assert [(one.severity, one.chart, one.onset) for one in found] == [("warning", "reward/scaled_mean", 31)] * is_found
    assert all("with step 31 reward/scaled_mean is 30" in one.text and "; it was 0.6" in one.text for one in found)


def test_values_that_were_logged_without_a_step_are_compared_with_no_attempt(tmp_path: Path) -> None:
    folder = tmp_path / tmp_path.name
    for attempt, begins, value in (("0.0.0", 0, 0.6), ("0.1.0", 100, 30.0)):
        writer = process(folder, 0, started=STARTED + begins * SECOND, rl__run__attempt=attempt)
        for at in range(1, 20):
            writer.event("rl.step", at, body={"loss": value + 0.01 * (at % 3)}, attributes={})
        writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 1})
        writer.write()
    assert [one for one in examined(folder).findings if one.code.startswith("resume")] == []


def test_one_attempt_is_not_told_of_others(tmp_path: Path) -> None:
    folder = Job(tmp_path / "run", sampling(0.4)).write()

    assert read(folder).loops.others() == {}
    assert "Loops and attempts" not in write_report(folder, tmp_path / "page.html").output.read_text(encoding="utf-8")


def test_calls_of_an_earlier_attempt_are_not_averaged_with_those_of_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for attempt, begins, seconds in (("0.0.0", 0, 0.1), ("0.1.0", 100, 0.7)):
        writer = process(folder, 0, started=STARTED + begins * SECOND, rl__run__attempt=attempt)
        at = 1.0
        for step in range(1, 11):
            tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
            begin = at
            at = rollout(writer, step, 0, at, [("execute_tool search", seconds, tool)])
            steps_of(writer, "", range(step, step + 1), begin, at - begin)
        writer.write()
    collected = read(folder)

    [line] = lines.of_calls(collected, "seconds").values()
    assert (line.x, {round(mean, 3) for mean in line.means}) == (list(range(1, 11)), {0.7})
    assert {round(mean, 3) for mean in rollouts.over_steps(collected, "seconds")[0].means} == {0.7}


def steps_of(writer: ProcessWriter, loop: str, numbers: range, at: float, seconds: float) -> float:
    """Steps with one phase each, one after the other; when the last one ended."""
    for number in numbers:
        root, own = context("root", loop, number, at), context(loop, number, at)
        own = SpanContext(root.trace_id, own.span_id, is_remote=False, trace_flags=root.trace_flags)
        values = {"rl.loop.iteration": number}
        writer.span("rl.train", at, at + seconds / 2, {**values, "rl.phase": "train"}, own)
        writer.ids.span = own.span_id
        named = {"rl.loop.name": loop} if loop else {}
        writer.span("rl.rank.step", at, at + seconds, {**values, **named, "rl.rank": 0}, root)
        at += seconds
    return at


def test_steps_that_are_numbered_per_epoch_are_said_to_be_shown_in_part(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    at = 1.0
    for _ in range(3):
        at = steps_of(writer, "", range(1, 6), at, 2.0)
    writer.write()

    [one] = [finding for finding in examined(tmp_path / "run").findings if finding.code == "step_numbers"]
    assert one.severity == "notice"
    assert one.text.startswith("The step numbers went back 2 times: ")
    assert "up to step 5. Number steps over all epochs" in one.text


def test_loops_with_the_same_numbers_are_kept_apart_and_the_longest_is_shown(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    at = 1.0
    for step in range(1, 41):
        at = steps_of(writer, "actor", range(step, step + 1), at, 2.0)
        at = steps_of(writer, "critic", range(step, step + 1), at, 0.2 if step < 20 else 0.8)
    writer.write()
    collected = read(tmp_path / "run")

    assert (means(collected, "train"), collected.loops.shown.loop) == ({1.0}, "actor")
    assert [stretch.loop for stretch in collected.loops.others()] == ["critic"]
    found = [one for one in examined(tmp_path / "run").findings if "loop critic" in one.text]
    assert {one.onset for one in found} == {20}
    assert "Charts over steps show this alone: loop actor, attempt 0.0.0." in (
        write_report(tmp_path / "run", tmp_path / "page.html").output.read_text(encoding="utf-8")
    )


def test_steps_that_begin_again_in_a_process_are_not_averaged_with_those_before(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    at = steps_of(writer, "", range(1, 31), 1.0, 2.0)
    for number in range(1, 31):
        writer.event("rl.step", number, body={"reward": 0.0}, attributes={"rl.loop.iteration": number})
    steps_of(writer, "", range(1, 21), at, 4.0)
    for number in range(1, 21):
        writer.event("rl.step", at + number, body={"reward": 1.0}, attributes={"rl.loop.iteration": number})
    writer.write()
    collected = read(tmp_path / "run")

    assert means(collected, "train") == {2.0}
    assert collected.steps.lengths.cell.count == 20
    [(stretch, before)] = collected.loops.others().items()
    assert collected.loops.name(stretch) == "before its steps began again"
    assert before.lengths.cell.mean == 2.0
    assert set(scalars.of_run(collected).logged["reward"].y) == {1.0}


def step(number: int, start: float, seconds: float = 1.0, **attributes: Any) -> Span:
    values = {"rl.loop.iteration": number, **attributes}
    begin = int(start * SECOND)
    end = begin + int(seconds * SECOND)
    return Span(PROCESS, "s", "rl.rank.step", f"t{start}", "a", "b", begin, end, values, [], False, "", 0)


def test_steps_that_a_collector_has_reordered_or_that_overlap_are_no_restart() -> None:
    loops = Loops(tables_of(step(1, 1), step(3, 3), step(2, 2), step(5, 5), step(4, 4), step(5, 5.2), step(6, 6)))

    assert loops.others() == {}
    assert loops.main.lengths.cell.count == 7
    assert loops.title == "the loop without a name"


def test_of_many_restarts_the_last_ones_are_looked_at() -> None:
    loops = Loops(tables_of(*(step(number, 10 * again + number) for again in range(30) for number in (1, 2))))

    assert (loops.shown.restarts, loops.title) == (29, "the steps since their numbers began again")
    assert [stretch.restarts for stretch in loops.others()] == [*range(28, 21, -1)]
    assert loops.left_out == 22
    assert loops.main.lengths.cell.count == 2


def test_phases_of_a_step_that_never_ended_are_of_the_loop_of_their_process_and_no_time_of_its_steps() -> None:
    done, phase = step(1, 1), step(2, 2)
    for one in (done, phase):
        one.name, one.attributes["rl.phase"] = "rl.train", "train"
    tables = tables_of(step(1, 1, **{"rl.loop.name": "main"}), done, phase)

    assert [row["loop"] for row in tables.rows("SELECT loop FROM phase")] == ["main", "main"]
    steps = Loops(tables).main
    assert (steps.phases["train"].x, steps.inclusive["train"].cell.count) == ([1], 1)


def test_values_of_several_loops_are_curves_of_their_own(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    for number in range(1, 21):
        for loop, reward in (("actor", 1.0), ("critic", 0.0)):
            if loop == "actor" or number > 10:
                values = {"rl.loop.iteration": number, "rl.loop.name": loop}
                writer.event("rl.step", number, body={"reward": reward}, attributes=values)
    writer.write()
    collected = read(tmp_path / "run")
    [curves] = [curves for panel, curves in scalars.of_run(collected).panels() if panel.title == "Reward"]

    assert [(curve.name, set(curve.y), curve.x[0]) for curve in curves] == [
        ("reward", {1.0}, 1.0),
        ("reward (loop critic)", {0.0}, 11.0),
    ]


def test_what_a_rule_found_in_the_first_attempt_is_said_with_the_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for attempt, begins, kl in (("0.0.0", 0.0, 7.0), ("0.1.0", 100.0, 0.01)):
        job = Job(folder, sampling(0.4), attempt=attempt, begins=begins, ranks=1)
        job.logged = lambda _step, kl=kl: {"kl": kl}
        job.write()

    [one] = [one for one in examined(folder).findings if one.code == "P3_kl_explosion"]
    assert one.text.startswith("KL explosion since step 1 (attempt 0.0.0): ")


# -- files that are missing --------------------------------------------------------------------------------------------


def test_without_the_files_of_one_rank_the_others_are_compared_and_the_missing_one_is_named(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {"sample": 1.6 if rank == 2 and step >= 20 else 0.4, "train": 0.2}

    folder = Job(tmp_path / "run", phases, ranks=4).write()
    [gone] = folder.glob("*rank1-*")
    shutil.rmtree(gone)
    found = {one.code: one for one in examined(folder).findings}

    assert found["missing_ranks"].ranks == [1]
    assert (found["slower_phase"].ranks, found["slower_phase"].onset) == ([2], 20)
    assert "; ranks 0, 3 unchanged" in found["slower_phase"].text


def test_a_rank_of_which_only_an_earlier_attempt_has_files_is_missing_and_not_taken_from_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job(folder, sampling(0.4)).write()
    Job(folder, sampling(0.4), attempt="0.1.0", begins=100.0).write()
    for manifest in folder.glob("*rank1-*/manifest.json"):
        if json.loads(manifest.read_text(encoding="utf-8"))["attempt"] == "0.1.0":
            shutil.rmtree(manifest.parent)
    [missing] = [one for one in examined(folder).findings if one.code == "missing_ranks"]

    assert missing.ranks == [1]
    assert set(read(folder).steps.ranks) == {0}


def test_an_attempt_without_manifests_is_known_by_what_its_records_say(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job(folder, sampling(0.4), ranks=1).write()
    Job(folder, sampling(1.2), ranks=1, attempt="0.1.0", begins=100.0, noise=0.0).write()
    for manifest in folder.glob("*/manifest.json"):
        manifest.unlink()

    assert means(read(folder), "sample") == {1.2}


# -- processes beside the training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["0.0.20261123015709645475", ""])
def test_a_process_that_was_started_beside_the_training_is_no_later_attempt(tmp_path: Path, server: str) -> None:
    folder = tmp_path / "run"
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    job = Job(folder, sampling(0.4), ranks=2, attempt="0.0.20261123015709088371")
    job.write()
    beside = process(folder, None, started=STARTED, rl__run__attempt=server, rl__role="rollout")
    for number, writer in enumerate((job.writers[0], beside)):
        at = 1.0
        for step in range(1, 11):
            at = rollout(writer, step, number, at, [("execute_tool search", 0.1, tool)])
        writer.write()
    collected = read(folder)

    calls = lines.of_calls(collected, "seconds")
    assert {called.rank: line.count for called, line in calls.items()} == {0: 10, None: 10}
    summary = summarise(collected)
    assert (summary.reported, summary.missing, summary.attempt) == ([0, 1], [], "0.0.20261123015709088371")


def test_a_restart_that_the_launcher_counts_is_later_though_it_has_made_no_step(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job(folder, sampling(0.4), ranks=2).write()
    process(folder, 0, started=STARTED + 100 * SECOND, rl__run__attempt="0.1.0").write()
    collected = read(folder)

    assert collected.steps.lengths.cell.count == 80
    summary = summarise(collected)
    assert (summary.reported, summary.missing, summary.attempt) == ([0], [1], "0.1.0")
