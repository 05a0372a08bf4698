"""The table of the driven failures is what the last `make test-health` found."""

from __future__ import annotations

import json

from health import cases
from health.table import PAGE, RESULTS, with_table

FOUND = json.loads(RESULTS.read_text())


def test_the_page_shows_the_table():
    page = PAGE.read_text()
    assert page == with_table(page, FOUND)


def test_the_table_has_every_case_and_no_other():
    expected = [(case.name, one.code) for case in cases.SICK for one in case.expected]
    assert [(row["case"], row["code"]) for row in FOUND["rows"]] == expected
    assert [row["case"] for row in FOUND["healthy_rows"]] == [case.name for case in cases.HEALTHY]
