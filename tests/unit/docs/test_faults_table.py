"""The table of faults in the collector's documentation is what the last run of the scenarios measured."""

from __future__ import annotations

import json
from pathlib import Path

from faults.results import markdown

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_measured_table():
    rows = json.loads((ROOT / "benchmarks/results/collector_faults.json").read_text())["rows"]
    assert markdown(rows) in (ROOT / "docs/collector-durability.md").read_text()
