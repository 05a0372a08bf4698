"""What the run came to and its settings: in the head, folded on the page, and as JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import SECOND, process

from otel_rl.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.report import Report

STARTED = 1_780_000_000 * SECOND
RESULT = {
    "rl.run.result.key": ["reward", "kl"],
    "rl.run.result.last": [0.5, 0.01],
    "rl.run.result.last_step": [9, 9],
    "rl.run.result.best": [0.75, None],
    "rl.run.result.best_step": [4, None],
}


@pytest.fixture
def writer(tmp_path: Path) -> ProcessWriter:
    return process(tmp_path / "run", 0, world_size=1, started=STARTED)


def _report(writer: ProcessWriter, tmp_path: Path) -> tuple[Report, str]:
    report = write_report(writer.write().parent, tmp_path / "page.html")
    return report, re.sub(r"\s+", " ", report.output.read_text())


def _configure(writer: ProcessWriter, at: float, source: str, settings: dict[str, Any]) -> None:
    writer.event("rl.run.configuration", at, settings, {"rl.run.configuration.source": source})


def test_the_result_of_the_end_is_in_the_head_and_in_the_json(writer: ProcessWriter, tmp_path: Path) -> None:
    writer.event("rl.run.end", 5, RESULT, {"rl.run.end.status": "completed"})
    report, page = _report(writer, tmp_path)

    assert "reward 0.5 (best 0.75 at step 4)" in page
    assert report.run["end"] == "in order"
    assert report.run["result"] == [
        {"key": "reward", "last": 0.5, "last_step": 9, "best": 0.75, "best_step": 4},
        {"key": "kl", "last": 0.01, "last_step": 9, "best": None, "best_step": None},
    ]


def test_of_a_process_without_an_end_the_result_is_what_it_had_logged(writer: ProcessWriter, tmp_path: Path) -> None:
    for step, reward in enumerate((0.25, 0.75, 0.5), start=1):
        writer.event("rl.step", step, {"reward": reward, "loss": float("nan")}, {"rl.loop.iteration": step})
    report, page = _report(writer, tmp_path)

    assert "reward 0.5 (best 0.75 at step 2)" in page
    assert report.run["result"][0] == {"key": "reward", "last": 0.5, "last_step": 3, "best": 0.75, "best_step": 2}
    assert report.run["result"][1]["last"] == "NaN"


def test_settings_are_folded_and_the_later_value_counts(writer: ProcessWriter, tmp_path: Path) -> None:
    _configure(writer, 1, "trl", {"learning_rate": 1e-6, "seed": 42, "fsdp": None, "limit": float("inf")})
    _configure(writer, 2, "wandb", {"team": "<red>"})
    _configure(writer, 3, "trl", {"learning_rate": 2e-6})
    report, page = _report(writer, tmp_path)

    assert report.run["configuration"] == {
        "trl": {"learning_rate": 2e-6, "seed": 42, "fsdp": None, "limit": "Infinity"},
        "wandb": {"team": "<red>"},
    }
    folded = page.partition('<details class="part" id="configuration">')[2].partition("</details>")[0]
    assert "<b>Configuration</b>: 4 settings of trl, 1 setting of wandb" in folded
    assert "&lt;red&gt;" in page
    assert "<red>" not in page


def test_a_run_without_records_of_it_has_neither_result_nor_settings(writer: ProcessWriter, tmp_path: Path) -> None:
    writer.event("rl.run.end", 5)
    report, page = _report(writer, tmp_path)

    assert (report.run["result"], report.run["configuration"]) == ([], {})
    assert ">Result<" not in page
    assert 'id="configuration"' not in page


def test_columns_of_different_lengths_lose_nothing_that_is_known(writer: ProcessWriter, tmp_path: Path) -> None:
    writer.event("rl.run.end", 5, RESULT | {"rl.run.result.key": ["reward", "kl", "loss"]})

    report, _ = _report(writer, tmp_path)
    assert [value["key"] for value in report.run["result"]] == ["reward", "kl", "loss"]
