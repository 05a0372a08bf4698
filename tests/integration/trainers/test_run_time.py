"""The time of a whole training run, of a real trainer on two ranks: parts that are explained and add up."""

from __future__ import annotations

from collections import Counter

import pytest
import transformers
from runs import attributes
from test_trainer import make_trainer

from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects.run_time import program
from otel_rl.report.subjects.run_time import shares as run_time
from otel_rl.store.reader import Reader, find_run
from otel_rl.telemetry import run_parts


def test_the_time_of_a_run_is_explained_and_adds_up(watched_run):
    collected = Collected(Reader(find_run(watched_run.data, None)), subjects.load()).read(lambda _: None)
    shares = dict(run_time.of_run(collected).shares)

    leading = collected.reader.processes[0]
    assert {"start", "telemetry", "imports", "model", "trainer", "first step", "steps", "end"} <= shares.keys()
    whole = sum(shares.values())
    lived = (leading.number("ended_unix_nano") - leading.number("started_unix_nano")) / 1e9
    # From its creation on, which the manifest does not know.
    assert lived <= whole <= lived + 30
    unexplained = shares.get("before", 0) + shares.get("between", 0)
    assert unexplained < 0.35 * whole
    assert dict(program.facts(collected))["Versions"]


def test_only_the_leading_rank_records_parts_and_program(watched_run):
    first, second = watched_run.processes

    assert any(span["name"] == "rl.run.part" for span in first.spans)
    assert not any(span["name"] == "rl.run.part" for span in second.spans)
    ends = [
        [attributes(record) for record in process.records if record.get("eventName") == "rl.run.end"]
        for process in (first, second)
    ]
    assert [["rl.run.seed" in end for end in of_process] for of_process in ends] == [[True], [False]]


@pytest.fixture
def parts():
    """What waits for the first record of the process, and is forgotten after the test."""
    run_parts._forget()
    yield run_parts
    run_parts._forget()


def test_a_model_that_is_loaded_and_saved_outside_of_training_is_recorded(instrumented, recorded, parts, tmp_path):
    trainer = make_trainer(tmp_path / "out")
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    parts.await_report()
    parts.report(at_end=True)

    assert type(loaded) is type(trainer.model)
    assert [span.name for span in recorded.spans].count("rl.checkpoint") == 1
    found = Counter(span.attributes["rl.run.part"] for span in recorded.spans if span.name == "rl.run.part")
    assert found["model"] == 1
    assert found["trainer"] in (1, 2), "its construction may take less than 1 ms, the preparation of its steps does not"
    assert parts.facts()["rl.run.seed"] == 42


def test_each_part_is_bounded_and_only_the_outer_call_of_a_kind_counts(recorded, parts):
    hooks = parts.following("dataset")
    outer = hooks["begin"]()
    assert hooks["begin"]() is None
    hooks["end"](outer, None, None)
    for _ in range(2 * parts.MOST):
        parts.add("model", 1)
    parts.await_report()
    parts.report(at_end=True)

    found = Counter(span.attributes["rl.run.part"] for span in recorded.spans if span.name == "rl.run.part")
    assert found == {"model": parts.MOST}, "the other one took less than 1 ms"
