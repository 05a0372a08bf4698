"""A run that an older version recorded is read, shown and sent with today's names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from otel_rl.replay.batches import batches
from otel_rl.report import write_report
from otel_rl.semconv import SCHEMA_URL
from otel_rl.semconv import attributes as names
from otel_rl.store.reader import Reader, find_run
from otel_rl.store.reader.lines import parse
from otel_rl.store.reader.unreadable import Unreadable

RECORDED = Path(__file__).parent / "recorded_by_0_1_0"
"""Three steps of a program, as version 0.1.0 wrote them; without the metrics."""
LOGS = RECORDED / "node-a-pid741-9d74167b" / "logs-0001.jsonl"
FORMER = "rl.system"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "old-form"))


def test_the_recorded_files_have_the_former_name() -> None:
    assert f'"key":"{FORMER}"' in LOGS.read_text()
    assert f'"key":"{names.RL_SYSTEM_NAME}"' not in LOGS.read_text()


def test_the_reader_knows_the_system_by_its_name_of_today(run: Path) -> None:
    reader = Reader(find_run(run, None))
    records = list(reader.records())

    assert records
    assert [process.identity(names.RL_SYSTEM_NAME) for process in reader.processes] == ["trl"]
    assert FORMER not in reader.processes[0].resource


def test_the_report_shows_the_system(run: Path, tmp_path: Path) -> None:
    page = write_report(run, tmp_path / "page.html").output.read_text()

    assert ">System<" in page
    assert "trl" in page.partition(">System<")[2][:200]


def test_a_replay_sends_todays_name_and_the_schema_that_has_it() -> None:
    (batch,) = batches(LOGS, "logs", "logs", {}, Unreadable())

    (resource,) = batch.request.resource_logs
    keys = [pair.key for pair in resource.resource.attributes]
    assert keys.count(names.RL_SYSTEM_NAME) == 1
    assert FORMER not in keys
    assert resource.schema_url == SCHEMA_URL


def _resource(*pairs: tuple[str, str], schema_url: str = "") -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in pairs]
    line = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [], "schemaUrl": schema_url}]}
    parsed = parse(json.dumps(line).encode(), Unreadable())
    assert parsed is not None
    return dict(parsed["resourceSpans"][0])


def test_where_both_names_stand_todays_is_not_repeated() -> None:
    found = _resource((FORMER, "mine"), (names.RL_SYSTEM_NAME, "trl"))["resource"]["attributes"]

    assert [pair["key"] for pair in found] == [FORMER, names.RL_SYSTEM_NAME]


def test_the_schema_of_somebody_else_stays() -> None:
    assert _resource((FORMER, "trl"), schema_url="https://example.org/1")["schemaUrl"] == "https://example.org/1"
