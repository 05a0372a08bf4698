"""Each start of role local has a folder of its own; whoever names one gets that."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from otel_rl.collector import composed, data_folder
from otel_rl.collector.checks import host
from otel_rl.collector.parts.choices import select

DATA = "OTEL_RL_COLLECTOR_DATA_DIR"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("environ", [{}, {DATA: " "}])
def test_a_start_of_role_local_has_a_folder_of_its_own_below_the_default_one(environ: dict[str, str]):
    selection = select("local")
    given = data_folder.for_this_start(selection, environ)
    assert re.fullmatch(rf"\./otel-rl/collector/\d{{8}}T\d{{6}}Z-[\w.-]+-{os.getpid()}", given[DATA])
    actual = composed.compose(selection, given).values
    assert {path.parent for path in host.files_of(actual).values()} == {Path(given[DATA])}
    assert actual["extensions"]["health_status"]["folders"] == {"data": given[DATA]}
    assert data_folder.in_words(actual, given[DATA]) == [f"writes into {Path(given[DATA])}"]


@pytest.mark.parametrize(("role", "sinks", "environ"), [("local", [], {DATA: "mine"}), ("gateway", ["file"], {})])
def test_a_folder_that_is_named_and_that_of_a_gateway_stay_as_they_are(
    role: str, sinks: list[str], environ: dict[str, str]
):
    assert data_folder.for_this_start(select(role, sinks), environ) == environ


def _holding(size: int, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(size)


def _written_by(*files: Path) -> dict[str, dict[str, dict[str, str]]]:
    return {"exporters": {f"line_file/{number}": {"path": str(file)} for number, file in enumerate(files)}}


def test_a_start_says_how_much_other_starts_left(tmp_path: Path):
    data = tmp_path / "collector"
    _holding(600_000_000, data / "traces.jsonl")
    _holding(600_000_000, data / "20260101T000000Z-a-7" / "logs-2026-01-01T00-00-00.000.jsonl")
    own = data / "now"
    found = data_folder.in_words(_written_by(own / "traces.jsonl"), str(own))
    assert found[1:] == [f"files of other starts in {data} take 1.2 GB; remove what you no longer need"]
    assert len(data_folder.in_words(_written_by(own / "traces.jsonl"))) == 1


@pytest.mark.parametrize(
    "foreign", ["collector/prompts.jsonl", "collector/a/b/traces.jsonl", "collector/a/metrics-mine.jsonl"]
)
def test_a_start_says_nothing_of_files_that_no_start_wrote(tmp_path: Path, foreign: str):
    _holding(2_000_000_000, tmp_path / foreign)
    own = tmp_path / "collector" / "now"
    assert len(data_folder.in_words(_written_by(own / "traces.jsonl"), str(own))) == 1


def test_a_start_looks_at_no_folder_that_a_file_of_the_user_names(tmp_path: Path):
    _holding(2_000_000_000, tmp_path / "home" / "traces.jsonl")
    _holding(2_000_000_000, tmp_path / "home" / "data" / "traces.jsonl")
    own = tmp_path / "collector" / "now"
    actual = _written_by(own / "traces.jsonl", tmp_path / "home" / "mine" / "copy.jsonl")
    assert data_folder.in_words(actual, str(own)) == [f"writes into {own}, {tmp_path}/home/mine"]
