"""The table on the page is what the last comparison measured."""

from __future__ import annotations

from hosts import results

ROW = {
    "suite": "langchain-core",
    "version": "1.7.2",
    "tests": 3,
    "plain": {"passed": 3},
    "instrumented": {"failed": 1, "passed": 2},
    "recording_processes": {"otel_rl_langchain": 1},
    "new": [],
    "known": [{"test": "t.py::a", "plain": "passed", "instrumented": "failed", "seen_again": 3}],
    "unsettled": [{"test": "t.py::b", "plain": "passed", "instrumented": "failed", "seen_again": 1}],
}


def test_the_page_shows_the_rows_of_the_file():
    rows = results.read()

    assert rows
    assert results.markdown(rows) in results.PAGE.read_text()


def test_every_row_names_what_was_active_in_its_instrumented_run():
    for row in results.read():
        assert row["recording_processes"]
        assert all(row["recording_processes"].values())


def test_the_table_lists_counts_and_each_test_that_differs_unexpectedly():
    assert results.markdown([ROW]).splitlines() == [
        "| suite | version | tests | plain | instrumented | new | known | unsettled |",
        "|---|---|---|---|---|---|---|---|",
        "| langchain-core | 1.7.2 | 3 | 3 passed | 1 failed, 2 passed | 0 | 1 | 1 |",
        "",
        "Differing tests of langchain-core:",
        "",
        "- unsettled: `t.py::b`, passed plain, failed instrumented, again in 1 of 3 reruns",
    ]


def test_a_new_row_takes_the_place_of_the_suites_former_one(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FILE", tmp_path / "rows.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "page.md")
    results.PAGE.write_text("before\n" + results.markdown([]) + "after\n")

    for version in ("1", "2"):
        results.enter({**ROW, "version": version})

    assert [row["version"] for row in results.read()] == ["2"]
    assert results.PAGE.read_text() == "before\n" + results.markdown([{**ROW, "version": "2"}]) + "after\n"
