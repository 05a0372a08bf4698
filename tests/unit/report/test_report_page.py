"""The page says what the run did, who is missing and what was lost; it loads nothing and escapes everything."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import SECOND, GrpoRun, process, write_agent_run

from otel_rl.report import subjects, write_report
from otel_rl.report.core import human
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.summary import summarise
from otel_rl.report.page import cards, page_head
from otel_rl.report.subjects.training import program_kinds, scalars
from otel_rl.store.reader import Point, Process, Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

#: See `support.charts_once`.
DRAWS_ALL_CHARTS = True
EVIL = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"


class Page(HTMLParser):
    """Text by section, findings, and everything a browser would load."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.section = "head"
        self.texts: dict[str, str] = {}
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self._in_script = False
        self.source = file.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self._in_script = tag in ("script", "style")
        if tag == "section" or (tag, values.get("class")) == ("details", "part"):
            self.section = values.get("id") or values.get("class") or ""
        self.loads += [value for key, value in attrs if key in ("src", "href") and value and not value.startswith("#")]

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False
        if tag == "main":
            self.section = "foot"

    def handle_data(self, data: str) -> None:
        if not self._in_script:
            self.texts[self.section] = self.texts.get(self.section, "") + re.sub(r"\s+", " ", data) + " "


def _page(tmp_path: Path, run: Path) -> Page:
    return Page(write_report(run, tmp_path / "page.html").output)


def _has(text: str, *parts: str) -> None:
    for part in parts:
        assert part in re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def grpo(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("grpo")
    return _page(folder, GrpoRun(folder / "data").write())


def test_the_head_says_what_ran(grpo: Page) -> None:
    _has(grpo.texts["head"], "grpo_two_ranks", "grpo-7f3a", "train.py", "trl", "grpo", "torchrun", "2 of 2 reported")
    _has(grpo.texts["foot"], "torch 2.13.0", "trl 1.16.0")


@pytest.mark.parametrize("is_over", [True, False])
def test_the_head_says_when_a_run_ended_once_it_has(tmp_path: Path, is_over: bool) -> None:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=time.time_ns() - 100 * SECOND)
    writer.clean_exit = is_over
    writer.span("rl.rank.step", 1, 40, {"rl.loop.iteration": 7})
    if is_over:
        writer.event("rl.run.end", 41)
    writer.write()
    head = _page(tmp_path, run).texts["head"]
    assert ("Ended" in head) is is_over
    assert (human.moment(writer.at(41)) in head) is is_over


def test_the_figures_of_the_run_come_first(grpo: Page) -> None:
    _has(grpo.texts["tiles"], "Steps 20", "Tokens 81,920", "160 samples", "Tool calls 120 4 failed")
    # The same number as in the list of findings, with what it is made of.
    _has(grpo.texts["tiles"], "Errors 5 1 uncaught exception, 4 failed spans and log records")


def test_what_deserves_a_look_is_said_in_words(grpo: Page) -> None:
    _has(
        grpo.texts["findings"],
        "rank 1 failed: torch.OutOfMemoryError: out of memory while saving <the> checkpoint; the last step begun was",
        "4 failed spans, all of them ValueError in execute_tool calculator, besides 1 uncaught exception.",
        "Rank 1 makes the others wait: most work of its own in 20 of 20 steps",
        "12 items of telemetry dropped: ",
    )


def test_phases_share_the_step_without_counting_inner_time_twice(grpo: Page) -> None:
    rows = re.findall(r"<i class=\"swatch\".*?</i>(\w+)</td>.*?>([\d.]+ %)<", grpo.source, re.DOTALL)
    shares = {phase: float(share.removesuffix(" %")) for phase, share in rows}
    assert set(shares) == {
        *("sample", "generate", "log_probs", "reward", "train", "forward", "backward", "optimizer", "sync", "uncovered")
    }
    assert sum(shares.values()) == pytest.approx(100, abs=2)
    assert shares["generate"] == pytest.approx(55 * 0.62, abs=1)


def test_ranks_and_collectives_are_compared(grpo: Page) -> None:
    _has(grpo.texts["ranks"], "rank 0 20", "0 of 20", "20 of 20", "all_reduce default_pg (2 ranks) 560 140 MiB")
    _has(grpo.texts["ranks"], "rank 0, 10.3 s", "Slowest single collectives")


def test_rewards_tools_and_errors_have_their_tables(grpo: Page) -> None:
    _has(grpo.texts["rewards"], "format_reward 320", "len_reward 320")
    _has(grpo.texts["tools"], "calculator 120 4 (ValueError 4)", "Slowest calls")
    _has(grpo.texts["errors"], "out of memory while saving <the> checkpoint", 'File "train.py", line 9')


def test_drops_are_counted_once_though_manifest_and_metric_tell_them(tmp_path: Path) -> None:
    run = tmp_path / "data" / "twice"
    writer = process(run, 0, started=1_700_000_000_000_000_000)
    counter = writer.meter.create_counter("rl.telemetry.dropped")
    counter.add(7, {"rl.telemetry.signal": "traces", "rl.telemetry.drop.reason": "queue_full"})
    writer.dropped = {"traces": {"queue_full": 9}}
    writer.write()
    _has(_page(tmp_path, run).texts["findings"], "9 items of telemetry dropped: queue_full (traces).")


def test_a_missing_rank_and_one_without_an_end_are_named(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", ranks=2, world_size=4, steps=2, error=False).write()
    manifest = next(run.glob("*rank1*/manifest.json"))
    left = {**json.loads(manifest.read_text()), "clean_exit": False, "ended_unix_nano": None}
    manifest.write_text(json.dumps(left))
    page = _page(tmp_path, run)
    _has(page.texts["findings"], "Ranks 2, 3 of 4 did not report.", "rank 1 has no end recorded; last sign")
    _has(page.texts["processes"], "has no end recorded; last sign", "ended in order; its exit status is not known")
    _has(page.texts["telemetry"], "rank 1 did not end in order: what had not been delivered is missing and not counted")


def test_a_run_in_order_says_what_was_checked_and_what_could_not_be(tmp_path: Path) -> None:
    run = tmp_path / "data" / "fine"
    process(run, 0, world_size=1, started=1_700_000_000_000_000_000).write()
    page = _page(tmp_path, run)
    _has(
        page.texts["findings"],
        "Nothing was recorded, so there is nothing to judge: checked 1 thing; 2 had too little data; 46 do not",
    )
    _has(
        page.texts["findings"],
        "Checked, nothing found: how the processes ended (1 process).",
    )
    _has(
        page.texts["findings"],
        "Too little data for 2 checks: errors, lost telemetry errors: needs 1 span or log record, has 0",
    )
    _has(
        page.texts["findings"], "Does not apply to this run: 46 checks steps and phases that become slower, late ranks"
    )
    _has(page.texts["findings"], "failing tools, tools that become slower: no tool was called")
    _has(page.texts["telemetry"], "No drop was counted, and every line could be read.")


def test_unreadable_lines_are_told_in_the_page_and_to_the_caller(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    with next(run.glob("*rank0*/traces-0001.jsonl")).open("a") as stream:
        stream.write('nonsense\n{"half')
    report = write_report(run, tmp_path / "page.html")
    said = "1 line cut off at the end of a file, 1 line is no JSON"
    assert report.notes == [f"not read: {said}"]
    _has(Page(report.output).texts["telemetry"], f"Not read: {said}.")


def test_a_run_of_agents_without_steps_has_a_useful_page(tmp_path: Path) -> None:
    page = _page(tmp_path, write_agent_run(tmp_path / "data"))
    _has(page.texts["tiles"], "Rollouts 12 1 failed", "Model calls 24 0 failed", "Tool calls 12 1 failed")
    _has(page.texts["rollouts"], "Slowest rollouts", "group group-2, sample s10", "solver 12", "TimeoutError")
    _has(page.texts["models"], "chat tiny-qwen 24", "210 input / 34 output tokens")
    _has(page.texts["rewards"], "exact_match 12 0.3333")
    _has(page.texts["not-in-this-run"], "Where step time goes", "Training curves", "Ranks and collectives")


def test_sections_without_data_say_what_would_fill_them(tmp_path: Path) -> None:
    run = tmp_path / "data" / "bare"
    process(run, 0, world_size=1, started=1_700_000_000_000_000_000).write()
    page = _page(tmp_path, run)
    _has(page.texts["not-in-this-run"], "otel_rl.step()", "otel_rl.metric()", "torch.distributed", "otel_rl.rollout()")
    _has(page.texts["not-in-this-run"], "otel_rl.tool()", "otel_rl.reward()", "No error was recorded")


def test_values_that_are_not_finite_are_named_and_harm_no_chart(tmp_path: Path) -> None:
    run = tmp_path / "data" / "nan"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for iteration in range(3):
        body = {"loss": float("nan") if iteration == 1 else 0.5, "note": "text", "flag": True}
        writer.event("rl.step", iteration, body=body, attributes={"rl.loop.iteration": iteration})
    writer.write()
    _has(_page(tmp_path, run).texts["training"], "Values that were not finite and are not drawn: loss (1).")


def test_without_log_records_the_curves_come_from_gauges(tmp_path: Path) -> None:
    run = tmp_path / "data" / "gauges"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    writer.meter.create_gauge("rl.train.entropy").set(1.5)
    writer.write()
    _has(_page(tmp_path, run).texts["training"], "From gauges over time", "Entropy")


def test_the_page_loads_nothing_and_stays_small(grpo: Page) -> None:
    assert grpo.loads == ["data:,"]
    assert len(grpo.source.encode()) < 3_000_000
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', grpo.source)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'nonce-")


def _evil_run(data: Path) -> Path:
    run = GrpoRun(data, run_id="evil", steps=2, tool_name=EVIL).write()
    writer = process(run, None, started=1_700_000_000_000_000_000, service__name=EVIL, host__name="h", rl__role=EVIL)
    for step in (1, 2, 3):
        body = {EVIL: float(step), f"rewards/{EVIL}/mean": 3.0 - step}
        writer.event("rl.step", step, body=body, attributes={"rl.loop.iteration": step})
    exception = {"exception.type": EVIL, "exception.message": EVIL, "exception.stacktrace": EVIL}
    writer.event("rl.process.exception", 2, attributes=exception, severity=21)
    rollout = writer.span("rl.rollout", 1, 2, {"rl.rollout.id": EVIL, "rl.group.id": EVIL}, error=EVIL)
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": EVIL}
    writer.span(EVIL, 1, 2, tool, parent=rollout, error=EVIL)
    phase = {"rl.phase": EVIL, "rl.loop.iteration": 1}
    writer.span(EVIL, 1, 2, phase)
    writer.instrumentors = {EVIL: {"state": EVIL, "reason": EVIL}}
    writer.exit_reason, writer.clean_exit = EVIL, False
    writer.write()
    return run


@pytest.fixture
def evil_run(tmp_path: Path) -> Path:
    return _evil_run(tmp_path / "data")


def test_markup_in_the_data_stays_text(tmp_path: Path, evil_run: Path) -> None:
    page = _page(tmp_path, evil_run)
    assert "img" not in page.tags
    assert page.source.count("window.hacked") > 10
    assert not re.search(r"<script>\s*window\.hacked", page.source)
    scripts = re.findall(r"<script[^>]*>", page.source)
    assert all("nonce=" in script for script in scripts)
    # As many openings as endings: none of them comes from the data.
    assert len(scripts) == page.source.count("</script>") == 4


def test_what_stands_between_backticks_is_code_and_stays_text(tmp_path: Path) -> None:
    writer = process(tmp_path / "data" / "run", 0, started=1_700_000_000_000_000_000)
    message = "give `<img src=x>` to `Trainer(\n)`"
    writer.event("rl.process.exception", 2, attributes={"exception.type": "E", "exception.message": message})
    writer.write()
    page = _page(tmp_path, tmp_path / "data" / "run")
    assert "give <code>&lt;img src=x&gt;</code> to <code>Trainer( )</code>" in page.source
    assert "img" not in page.tags


@pytest.mark.parametrize("missing", ["missing/page.html", "data/evil/x/y/page.html"])
def test_a_page_that_cannot_be_written_leaves_a_clear_word(tmp_path: Path, evil_run: Path, missing: str) -> None:
    from otel_rl.store.reader import UnusableInput

    with pytest.raises(UnusableInput, match="is no folder; create it first"):
        write_report(evil_run, tmp_path / missing)


def test_long_runs_are_binned_and_their_page_stays_small(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", ranks=1, world_size=1, steps=1500, step_seconds=0.5, error=False).write()
    page = _page(tmp_path, run)
    _has(page.texts["tiles"], "Steps 1,500")
    _has(page.texts["steps"], "Step time by phase mean of 5 steps")
    _has(page.texts["training"], "Reward mean of 5 steps, band min to max; should rise")
    assert len(page.source.encode()) < 2_500_000


def test_an_old_page_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: Any) -> None:
    run = GrpoRun(tmp_path / "data", steps=1).write()
    output = write_report(run, None).output
    assert output == run / "report.html"
    old = output.read_text()
    monkeypatch.setattr("os.fdopen", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(Exception, match="No space left on device; choose another place with -o FILE"):
        write_report(run, None)
    assert output.read_text() == old
    assert sorted(path.name for path in run.glob("*report*")) == ["report.html"]


def test_without_traces_the_durations_come_from_histograms(tmp_path: Path) -> None:
    run = tmp_path / "data" / "untraced"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    writer.meter.create_histogram("rl.loop.duration", "s").record(2.0)
    writer.meter.create_histogram("rl.phase.duration", "s").record(0.5, {"rl.phase": "generate"})
    writer.write()
    _has(
        _page(tmp_path, run).texts["steps"],
        "these are the durations of the phases alone",
        "generate 1 0.5 s",
        "step 1 2 s",
    )


def test_values_of_the_programs_own_are_shown_over_time(tmp_path: Path) -> None:
    run = tmp_path / "data" / "own"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    writer.meter.create_gauge("rl.trainer.metric").set(17.5, {"rl.trainer.metric.key": "buffer/size"})
    for iteration in range(3):
        writer.event("rl.step", iteration, body={"reward": iteration}, attributes={"rl.loop.iteration": iteration})
    writer.write()
    said = "Values recorded over time: one point only (1) buffer/size 17.5"
    _has(_page(tmp_path, run).texts["training"], "As it was logged.", said)


def test_one_point_of_a_value_is_said_to_be_one_point(tmp_path: Path) -> None:
    run = tmp_path / "data" / "short"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for key in ("kl", "buffer/size"):
        writer.meter.create_gauge("rl.trainer.metric").set(0.25, {"rl.trainer.metric.key": key})
    writer.event("rl.step", 1, body={"reward": 0.5, "clip": 0.1}, attributes={"rl.loop.iteration": 1})
    writer.write()
    training = _page(tmp_path, run).texts["training"]
    _has(training, "Reward reward 0.5, once, at step 1 should rise", "KL divergence kl 0.25, once, at 0 s small")
    _has(training, "Everything else that was logged: one point only (1) clip 0.1")
    assert "throughout" not in training


def test_steps_of_one_rank_are_not_said_to_be_none(tmp_path: Path) -> None:
    for rank in (0, None):
        run = tmp_path / f"data-{rank}" / "run"
        writer = process(run, rank, started=1_700_000_000_000_000_000)
        for iteration in range(3):
            writer.span("rl.rank.step", iteration, iteration + 1, {"rl.loop.iteration": iteration})
        writer.write()
        findings = _page(tmp_path, run).texts["findings"]
        _has(findings, "steps and phases that become slower, slow steps: needs 16 steps, has 3")
        _has(
            findings, "late ranks: the steps are of one rank of 2" if rank == 0 else "late ranks: the job has one rank"
        )


def test_a_panel_without_a_logged_key_shows_the_gauge_over_time(tmp_path: Path) -> None:
    run = tmp_path / "data" / "both"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    writer.meter.create_gauge("rl.train.entropy").set(1.5)
    for iteration in range(1, 4):
        writer.event("rl.step", iteration, body={"reward": iteration}, attributes={"rl.loop.iteration": iteration})
    writer.write()
    page = _page(tmp_path, run)
    _has(page.texts["training"], "As it was logged.", "Reward", "Entropy")
    _has(page.texts["tiles"], "Reward 3 step 3")


def test_keys_of_any_trainer_with_a_metric_of_the_registry_are_in_its_panel_by_step(tmp_path: Path) -> None:
    run = tmp_path / "data" / "slime"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000, rl__algorithm="", rl__system__name="ray")
    writer.meter.create_gauge("rl.environment.reward.mean").set(0.5)
    for iteration in range(1, 4):
        body = {"rollout/raw_reward": iteration / 4, "rollout/response_lengths": 10.0 * iteration}
        writer.event("rl.step", iteration, body=body, attributes={"rl.loop.iteration": iteration})
    writer.write()
    page = _page(tmp_path, run)
    _has(page.texts["tiles"], "Reward 0.75 step 3")
    _has(page.texts["training"], "Reward should rise", "Completion length (tokens)")
    assert "Everything else" not in page.texts["training"]


def test_loss_and_learning_rate_of_a_plain_loop_are_shown_beside_the_loss_that_it_logs(tmp_path: Path) -> None:
    run = tmp_path / "data" / "plain"
    writer = process(
        run, 0, world_size=1, started=1_700_000_000_000_000_000, rl__algorithm="", rl__system__name="torch"
    )
    for iteration in range(1, 31):
        body = {"torch/loss": 1 / iteration, "torch/learning_rate": 0.1 / iteration}
        writer.event("rl.step", iteration, body=body, attributes={"rl.loop.iteration": iteration})
    for epoch in range(3):
        writer.event("rl.step", 10 * epoch + 10, body={"loss": 5.0 - epoch}, attributes={"rl.loop.iteration": epoch})
    writer.write()
    page = _page(tmp_path, run)
    _has(page.texts["training"], "Loss of the backward pass the loss that backward was called on")
    _has(page.texts["training"], "Learning rate the schedule, as applied")
    _has(page.texts["tiles"], "Loss 3 step 2", "Loss of the backward pass")


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([1e-6] * 6, "learning_rate 1e-06 throughout, step 0 to step 5 the schedule, as applied"),
        ([0.0] * 6, "learning_rate 0 throughout, step 0 to step 5 the schedule, as applied"),
        ([1e-6] * 5 + [0.03], "Learning rate the schedule, as applied; logarithmic scale"),
        ([6e-6, 5e-6, 4e-6, 3e-6, 2e-6, 1e-6], "Learning rate the schedule, as applied"),
    ],
)
def test_small_values_are_drawn_on_a_scale_on_which_they_can_be_read(
    tmp_path: Path, rates: list[float], said: str
) -> None:
    run = tmp_path / "data" / "rates"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for iteration, rate in enumerate(rates):
        writer.event("rl.step", iteration, body={"learning_rate": rate}, attributes={"rl.loop.iteration": iteration})
    writer.write()
    page = _page(tmp_path, run)
    _has(page.texts["training"], said)
    assert ("logarithmic scale" in page.texts["training"]) is ("logarithmic" in said)
    # Six millionths are drawn as 6, and the label of the axis (JSON in JSON) says of what.
    assert (r"10\\u207b\\u2076" in page.source) is (rates[0] == 6e-6)


def test_tokens_that_one_rank_counts_for_all_are_related_to_the_time_of_one_rank(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=10, step_seconds=1.0)
    page = _page(tmp_path, run.write())
    _has(page.texts["tiles"], f"{round(40_960 / sum(run.durations), 1):,.0f} per s of all ranks")


def test_values_that_never_change_are_listed_and_not_drawn(tmp_path: Path) -> None:
    run = tmp_path / "data" / "constant"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for iteration in range(3):
        body = {"reward": iteration, "clip": 0.25}
        writer.event("rl.step", iteration, body=body, attributes={"rl.loop.iteration": iteration})
    writer.write()
    _has(_page(tmp_path, run).texts["training"], "Everything else that was logged: one value throughout (1) clip 0.25")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        # A fifth of thirty log calls is six.
        (range(10, 310, 10), "Reward 27.5 mean of steps 250 to 300; steps 10 to 60: 3.5"),
        # Of ten log calls five are compared with five, and fewer with none.
        (range(1, 11), "Reward 0.8 mean of steps 6 to 10; steps 1 to 5: 0.3"),
        (range(1, 4), "Reward 0.3 step 3 Errors"),
    ],
)
def test_the_tile_of_a_value_says_of_which_steps_its_numbers_are(tmp_path: Path, steps: range, said: str) -> None:
    run = tmp_path / "data" / "rising"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for step in steps:
        writer.event("rl.step", step, body={"reward": step / 10}, attributes={"rl.loop.iteration": step})
    writer.write()
    _has(_page(tmp_path, run).texts["tiles"], said)


def test_a_change_within_the_noise_is_said_to_be_none(tmp_path: Path) -> None:
    run = tmp_path / "data" / "noisy"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for step in range(1, 21):
        body = {"reward": 0.5 + 0.3 * (-1) ** step + 0.001 * step}
        writer.event("rl.step", step, body=body, attributes={"rl.loop.iteration": step})
    writer.write()
    _has(_page(tmp_path, run).texts["tiles"], "mean of steps 16 to 20; no clear change since steps 1 to 5: 0.443")


def test_values_that_differ_by_rounding_have_no_curve_in_their_tile(tmp_path: Path) -> None:
    run = tmp_path / "data" / "still"
    writer = process(run, 0, world_size=1, started=1_700_000_000_000_000_000)
    for step in range(1, 21):
        body = {"reward": 0.1 * step, "kl": 0.5658 + 6e-8 * (step % 2)}
        writer.event("rl.step", step, body=body, attributes={"rl.loop.iteration": step})
    writer.write()
    collected = Collected(Reader(find_run(run)), subjects.load()).read(lambda _: None)
    tiles = {tile.name: tile for tile in page_head.tiles(collected, summarise(collected))}
    assert tiles["Reward"].curve
    assert (tiles["KL"].value, tiles["KL"].curve) == ("0.566", "")


def test_the_tile_of_a_value_that_is_known_over_time_says_of_which_seconds(tmp_path: Path) -> None:
    (tmp_path / "metrics-0001.jsonl").write_text("")
    collected = Collected(Reader(find_run(tmp_path)), subjects.load())
    for second in range(10):
        at = (100 + second) * 10**9
        point = Point(Process("p"), "s", "rl.environment.reward.mean", "gauge", False, 0, at, second, {})
        collected.add(point)
    collected.settle()
    card = program_kinds.REWARD_CARDS[0]
    tile = cards._of_trend(card, scalars.of_run(collected).trend(card))
    assert tile[:3] == ("Reward", "7", "mean of 5 s to 9 s; 0 s to 4 s: 2")


def test_in_a_program_that_marks_no_rollouts_the_outermost_agent_calls_are_them(tmp_path: Path) -> None:
    run = tmp_path / "data" / "agents"
    writer = process(run, None, started=1_700_000_000_000_000_000)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "solver"}
    root = writer.span("invoke_agent solver", 0, 3, agent)
    writer.span("invoke_agent helper", 1, 2, {**agent, "gen_ai.agent.name": "helper"}, parent=root)
    writer.write()
    page = _page(tmp_path, run)
    _has(page.texts["tiles"], "Rollouts 1 0 failed")
    _has(page.texts["rollouts"], f"solver {root.trace_id:032x}"[:15], "Slowest rollouts: solver", "helper 1")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, monkeypatch: Any, *, terminal: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    stream = Stream()
    monkeypatch.setattr("otel_rl.report.core.reading._SECONDS_BEFORE_PROGRESS", 0)
    monkeypatch.setattr(sys, "stderr", stream)
    write_report(GrpoRun(tmp_path / "data", steps=1).write(), None)
    assert ("reading" in stream.getvalue()) is terminal
