"""The figures in docs/performance.md are those of the last measurement."""

from __future__ import annotations

import json
import re

import performance_page


def test_the_tables_are_written_from_the_results():
    page = performance_page.PAGE.read_text()
    assert page == performance_page.with_tables(page), "run benchmarks/performance_page.py and commit the result"


def test_every_table_stands_on_the_page():
    assert set(re.findall(r"<!-- table (\w+):", performance_page.PAGE.read_text())) == set(performance_page.TABLES)


def test_every_figure_with_a_limit_is_shown():
    shown = {(row.file, row.figure) for rows in performance_page.TABLES.values() for row in rows}
    for path in performance_page.RESULTS.glob("*.json"):
        for name, figure in json.loads(path.read_text()).get("figures", {}).items():
            if "limit" in figure or "at_least" in figure:
                assert (path.stem, name) in shown


def test_a_figure_over_its_limit_is_in_bold_type(tmp_path, monkeypatch):
    figures = {"launch event, ns": {"value": 900, "limit": 800, "within_limit": False}}
    (tmp_path / "collective_event.json").write_text(json.dumps({"figures": figures}))
    monkeypatch.setattr(performance_page, "RESULTS", tmp_path)
    table = performance_page.with_tables(
        "<!-- table collectives: benchmarks/performance_page.py -->\n<!-- end of the table -->"
    )
    assert "| launch | **900 ns** |  | 800 ns |" in table
    assert "| launch and wait | not measured | | |" in table
