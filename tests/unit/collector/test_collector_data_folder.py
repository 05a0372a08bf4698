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
    assert data_folder.in_words(actual, is_own=True) == [f"writes into {Path(given[DATA])}"]


@pytest.mark.parametrize(("role", "sinks", "environ"), [("local", [], {DATA: "mine"}), ("gateway", ["file"], {})])
def test_a_folder_that_is_named_and_that_of_a_gateway_stay_as_they_are(
    role: str, sinks: list[str], environ: dict[str, str]
):
    assert data_folder.for_this_start(select(role, sinks), environ) == environ


def test_a_start_says_how_much_other_starts_left(tmp_path: Path):
    for name in (".", "20260101T000000Z-a-7"):
        (tmp_path / "collector" / name).mkdir(parents=True)
        with (tmp_path / "collector" / name / "traces.jsonl").open("wb") as file:
            file.truncate(600_000_000)
    actual = {"exporters": {"line_file/traces": {"path": str(tmp_path / "collector" / "now" / "traces.jsonl")}}}
    found = data_folder.in_words(actual, is_own=True)
    assert found[1:] == [f"files of other starts in {tmp_path}/collector take 1.2 GB; remove what you no longer need"]
    assert len(data_folder.in_words(actual, is_own=False)) == 1
