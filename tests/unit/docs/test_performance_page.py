"""The figures in docs/performance.md are those of the last measurement."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def page_module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import performance_page

    return performance_page


def test_the_tables_are_written_from_the_results(page_module):
    page = page_module.PAGE.read_text()
    assert page == page_module.with_tables(page), "run benchmarks/performance_page.py and commit the result"


def test_every_table_stands_on_the_page(page_module):
    assert set(re.findall(r"<!-- table (\w+):", page_module.PAGE.read_text())) == set(page_module.TABLES)


def test_every_figure_with_a_limit_is_shown(page_module):
    shown = {(row.file, row.figure) for rows in page_module.TABLES.values() for row in rows}
    for path in page_module.RESULTS.glob("*.json"):
        for name, figure in json.loads(path.read_text()).get("figures", {}).items():
            if "limit" in figure or "at_least" in figure:
                assert (path.stem, name) in shown


def test_a_figure_over_its_limit_is_in_bold_type(page_module, tmp_path, monkeypatch):
    figures = {"launch event, ns": {"value": 900, "limit": 800, "within_limit": False}}
    (tmp_path / "collective_event.json").write_text(json.dumps({"figures": figures}))
    monkeypatch.setattr(page_module, "RESULTS", tmp_path)
    table = page_module.with_tables(
        "<!-- table collectives: benchmarks/performance_page.py -->\n<!-- end of the table -->"
    )
    assert "| launch | **900 ns** |  | 800 ns |" in table
    assert "| launch and wait | not measured | | |" in table
