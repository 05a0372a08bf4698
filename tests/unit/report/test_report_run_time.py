"""Where the time of the whole run went: parts that add up, of trainers, of programs without steps, and of neither."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import ProcessWriter, process
from unit.report.test_report_page import _has, _page

from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.summary import summarise
from otel_rl.report.page import page_head
from otel_rl.report.subjects import overview
from otel_rl.report.subjects.run_time import finding, shares
from otel_rl.report.subjects.run_time.section import _ROWS
from otel_rl.semconv.attributes import RlRunPartValues
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000
START_UP = {"rl.run.start_up.duration": 2.0, "rl.telemetry.start_up.duration": 0.8}


def _writer(tmp_path: Path, rank: int | None = 0, **program: Any) -> ProcessWriter:
    writer = process(tmp_path / "data" / "run", rank, started=STARTED)
    moment = datetime.fromtimestamp(STARTED / 1e9, timezone.utc).isoformat().replace("+00:00", "Z")
    writer.event("rl.run.program", 1, attributes={"process.creation.time": moment, **program})
    return writer


def _part(writer: ProcessWriter, part: str, start: float, end: float) -> None:
    writer.span("rl.run.part", start, end, {"rl.run.part": part})


def _step(writer: ProcessWriter, number: int, start: float, end: float) -> None:
    writer.span("rl.rank.step", start, end, {"rl.loop.iteration": number, "rl.rank": 0})


def _collected(tmp_path: Path) -> Collected:
    return Collected(Reader(find_run(tmp_path / "data", None)), subjects.load()).read(lambda _: None)


def _shares(tmp_path: Path) -> dict[str, float]:
    return {what: round(seconds, 3) for what, seconds in shares.of_run(_collected(tmp_path)).shares}


def _training(writer: ProcessWriter) -> None:
    """100 s: start 2, imports 20, data set 3, model 10, trainer 5 around 2 of the data set, steps from 60 to 90."""
    _part(writer, "import", 2, 20)
    _part(writer, "import", 24, 26)
    _part(writer, "dataset", 30, 33)
    _part(writer, "model", 23, 35)
    _part(writer, "dataset", 41, 43)
    _part(writer, "trainer", 40, 45)
    writer.span("rl.data_wait", 60, 61, {"rl.phase": "data_wait"})
    _step(writer, 1, 61, 70)
    writer.span("rl.data_wait", 70, 71, {"rl.phase": "data_wait"})
    writer.span("rl.evaluate", 75, 79, {"rl.phase": "evaluate", "rl.loop.iteration": 2})
    writer.span("rl.checkpoint", 79, 80, {"rl.phase": "checkpoint", "rl.loop.iteration": 2})
    _step(writer, 2, 71, 80)
    _step(writer, 3, 82, 90)
    writer.span("rl.checkpoint", 95, 96, {"rl.phase": "checkpoint"})
    writer.span("rl.run", 2, 100)


TRAINING = {
    "start": 1.2,
    "telemetry": 0.8,
    "imports": 20.0,
    "data set": 5.0,
    "model": 7.0,
    "trainer": 3.0,
    "before": 23.0,
    "first step": 10.0,
    "steps": 13.0,
    "between": 2.0,
    "evaluation": 4.0,
    "saving": 2.0,
    "end": 9.0,
}


def test_parts_of_a_training_run_add_up_to_its_time(tmp_path: Path) -> None:
    writer = _writer(tmp_path, **START_UP)
    _training(writer)
    writer.write()

    assert _shares(tmp_path) == TRAINING
    assert sum(TRAINING.values()) == 100


def test_the_length_of_the_run_is_that_of_its_parts(tmp_path: Path) -> None:
    created = datetime.fromtimestamp(STARTED / 1e9 - 5, timezone.utc).isoformat()
    writer = _writer(tmp_path, **START_UP, **{"process.creation.time": created})
    _training(writer)
    writer.write()
    collected = _collected(tmp_path)
    summary = summarise(collected)
    tiles = {tile.name: tile for tile in page_head.tiles(collected, summary)}

    # Telemetry starts five seconds after the creation of the process.
    assert summary.seconds == 100
    assert tiles["Length"].value == dict(page_head.facts(collected, summary))["Length"] == "1 min 45 s"
    assert tiles["In steps"].note.startswith("of 1 min 45 s")


def test_page_has_one_bar_a_card_and_the_program(tmp_path: Path) -> None:
    facts = {
        "process.command_args": ["train.py", "--lr", "1e-5", "--token", "***"],
        "vcs.ref.head.revision": "9d59409acf479dfa0df1aa568182e43e43df8bbe",
        "rl.run.library.versions": ["python 3.12.3", "torch 2.13.0"],
        "rl.run.seed": 42,
        "rl.model.name": "tiny",
        "rl.dataset.name": "sentences",
    }
    writer = _writer(tmp_path, **START_UP, **facts)
    _training(writer)
    page = _page(tmp_path, writer.write().parent)

    _has(page.texts["run_time"], "1 min 40 s", "Imports", "20 %")
    whole = " ".join(page.texts.values())
    _has(whole, "In steps", "23 %", "of 1 min 40 s; other 25 %")
    _has(whole, "train.py --lr 1e-5 --token ***", "9d59409acf47", "torch 2.13.0", "sentences")


def test_program_without_steps_is_divided_by_its_calls(tmp_path: Path) -> None:
    writer = _writer(tmp_path, rank=None)
    _part(writer, "import", 0, 2)
    for start, end in ((3, 5), (4, 6), (8, 10)):
        writer.span("chat m", start, end, {"gen_ai.operation.name": "chat"})
    writer.span("rl.run", 0, 12)
    writer.write()

    expected = {"imports": 2.0, "before": 1.0, "first call": 2.0, "calls": 3.0, "between": 2.0, "end": 2.0}
    assert _shares(tmp_path) == expected
    assert finding.card(_collected(tmp_path))[:2] == ("In calls", "42 %")


def test_program_of_which_nothing_else_is_known_says_so(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    _part(writer, "import", 0, 4)
    _part(writer, "rendezvous", 5, 6)
    writer.span("rl.run", 0, 10)
    writer.write()

    assert _shares(tmp_path) == {"imports": 4.0, "rendezvous": 1.0, "program": 5.0}
    assert finding.card(_collected(tmp_path))[1] == ""


def test_run_whose_steps_were_sampled_is_not_divided(tmp_path: Path) -> None:
    writer = _writer(tmp_path, **START_UP)
    _training(writer)
    writer.meter.create_counter("rl.train.steps", "{step}").add(30)
    writer.write()

    assert _shares(tmp_path) == {}


def test_process_that_does_not_lead_counts_for_nothing(tmp_path: Path) -> None:
    writer = _writer(tmp_path, **START_UP)
    _training(writer)
    writer.write()
    other = process(tmp_path / "data" / "run", 1, started=STARTED)
    _step(other, 1, 61, 600)
    other.write()

    assert _shares(tmp_path) == TRAINING


def test_time_of_a_driver_has_the_steps_of_its_worker(tmp_path: Path) -> None:
    driver = _writer(tmp_path, None, **START_UP)
    _part(driver, "import", 2, 20)
    driver.span("rl.run", 2, 100)
    driver.write()
    identity = {"rl__launcher": "ray", "rl__worker__name": "TaskRunner"}
    worker = process(tmp_path / "data" / "run", None, started=STARTED, **identity)
    _part(worker, "import", 25, 30)
    for number, start, end in ((1, 60, 70), (2, 70, 90)):
        worker.span("rl.rank.step", start, end, {"rl.loop.iteration": number})
    run = worker.write().parent

    spent = _shares(tmp_path)
    assert (spent["imports"], spent["before"], spent["first step"], spent["steps"]) == (18, 40, 10, 20)
    assert sum(spent.values()) == 100
    _has(_page(tmp_path, run).texts["run_time"], "The steps are those of its worker TaskRunner 4000.")


@pytest.mark.parametrize(("scale", "expected"), [(1, 0), (10, 1)])
def test_long_run_with_few_steps_is_a_notice_and_a_short_one_is_none(tmp_path: Path, scale: int, expected: int) -> None:
    writer = _writer(tmp_path)
    _part(writer, "import", 0, 30 * scale)
    _part(writer, "model", 30 * scale, 50 * scale)
    _step(writer, 1, 50 * scale, 52 * scale)
    _step(writer, 2, 52 * scale, 54 * scale)
    writer.span("rl.run", 0, 60 * scale)
    writer.write()

    found = finding.findings(_collected(tmp_path), {"changes": []})
    assert len(found) == expected
    if found:
        assert found[0].severity.value == "notice"
        assert found[0].text == "Steps are 6.7 % of the run's 10 min 00 s: imports 50 %, loading 33 %."


def test_every_part_that_a_process_may_record_has_a_row() -> None:
    parts = {value for name, value in vars(RlRunPartValues).items() if name.isupper()}
    assert set(shares._PARTS) == parts
    assert {*shares._PARTS.values()} <= set(_ROWS)


def test_time_between_calls_is_not_told_of_a_process_that_left_spans_of_rollouts_out(tmp_path: Path) -> None:
    writer = _writer(tmp_path, rank=None)
    writer.dropped = {"traces": {"rollout_spans": 40}}
    for start, end in ((3, 5), (8, 10)):
        writer.span("chat m", start, end, {"gen_ai.operation.name": "chat"})
    writer.span("rl.run", 0, 12)
    writer.write()

    spent = _shares(tmp_path)
    assert spent["calls and between"] == 7.0
    assert not {"first call", "calls", "between"} & set(spent)
    assert finding.card(_collected(tmp_path))[:2] == ("In calls, and between", "58 %")


@pytest.mark.parametrize(
    ("wait", "severity", "said"),
    [
        (1.2, "warning", "Steps wait for data for 53 % of their time (1.2 s a step)."),
        (0.5, "notice", "Steps wait for data for 32 % of their time (500 ms a step)."),
        (0.2, None, None),
    ],
)
def test_steps_that_wait_for_data_for_a_good_part_of_their_time_are_said_to(
    tmp_path: Path, wait: float, severity: str | None, said: str | None
) -> None:
    writer, at = _writer(tmp_path), 10.0
    for number in range(40):
        writer.span("rl.data_wait", at, at + wait, {"rl.phase": "data_wait"})
        _step(writer, number, at + wait, at + wait + 1)
        at += wait + 1
    writer.write()
    collected = _collected(tmp_path)
    found = [one for one in overview.examine(collected).findings if one.code == "data_wait_share"]
    assert [(one.severity, one.text) for one in found] == ([(severity, said)] if said else [])


def test_the_wait_for_the_first_batch_alone_is_no_share_of_the_steps(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    for number in range(10):
        begin = 10.0 + number if number else 2.0
        writer.span("rl.data_wait", begin, 10.1 + number, {"rl.phase": "data_wait"})
        _step(writer, number, 10.1 + number, 11.0 + number)
    writer.write()
    assert not [one for one in overview.examine(_collected(tmp_path)).findings if one.code == "data_wait_share"]
