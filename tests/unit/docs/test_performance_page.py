"""The figures in docs/performance.md are those of the last measurement."""

from __future__ import annotations

import json
import re

import performance_page


def test_the_tables_are_written_from_the_results():
    page = performance_page.PAGE.read_text()
    assert page == performance_page.with_tables(page), "run benchmarks/performance_page.py and commit the result"


def test_every_table_stands_on_the_page():
    assert set(re.findall(r"<!--table:(\w+)-->", performance_page.PAGE.read_text())) == set(performance_page.TABLES)


def test_every_figure_with_a_limit_is_shown():
    shown = {
        (row.file, figure) for table in performance_page.TABLES.values() for row in table.rows for figure in row.figures
    }
    for path in performance_page.RESULTS.glob("*.json"):
        for name, figure in json.loads(path.read_text()).get("figures", {}).items():
            if "limit" in figure or "at_least" in figure:
                assert (path.stem, name) in shown


def test_a_figure_over_its_limit_is_in_bold_type(tmp_path, monkeypatch):
    figures = {"launch event, ns": {"value": 900, "limit": 800, "within_limit": False}}
    (tmp_path / "collective_event.json").write_text(json.dumps({"figures": figures}))
    monkeypatch.setattr(performance_page, "RESULTS", tmp_path)
    table = performance_page.with_tables("<!--table:collectives-->\n<!--end-->")
    assert "| launch | **900 ns** ≤ 800 |  |" in table
    assert "| launch and wait | not measured | |" in table


def test_a_cell_says_which_end_of_the_interval_has_the_limit():
    row = performance_page.Row("share", "any", ("share",), 1, 100, " %")
    figure = {"value": 0.01, "lower_95": 0.009, "upper_95": 0.012, "judged": 0.012, "limit": 0.02}
    assert performance_page._cell(row, figure) == "1.0 % [0.9, 1.2], upper ≤ 2.0"
    assert performance_page._cell(row, {"value": 0.5, "at_least": 0.4}) == "50.0 % ≥ 40.0"
