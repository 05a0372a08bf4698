"""The tables of docs/agents.md that show what is tested are those of the tests."""

from __future__ import annotations

import pytest

pytest.importorskip("tomllib")

from instrumentation import agent_shapes_page as page

LIBRARIES = [name for name, row in page.ROWS.items() if row.get("is_library", True)]
BAD_INPUT = {
    "200 with an error", "agent that swallows exceptions", "chunk that is no JSON", "code in a pickle", "no usage",
    "stream that never ends", "tool named like a model", "version outside the range",
}  # fmt: skip


def test_the_page_has_what_the_tests_prove():
    assert page.main(["--check"]) == 0


@pytest.mark.parametrize("name", LIBRARIES)
def test_each_cell_has_a_test_or_a_reason_and_not_both(name):
    row = page.ROWS[name]
    kinds = page.proven("shape")[name], page.without_test(row, "absent"), page.without_test(row, "not_recorded")
    assert sorted(shape for kind in kinds for shape in kind) == sorted(page.SHAPES)


def test_each_kind_of_bad_input_has_tests_of_a_known_row():
    assert set().union(*page.proven("bad_input").values()) == BAD_INPUT
    assert {*page.proven("bad_input"), *page.proven("shape")} <= set(page.ROWS)


def test_a_page_that_differs_fails(tmp_path):
    copy = tmp_path / "agents.md"
    copy.write_text(page.PAGE.read_text().replace("|yes|", "|no|", 1))
    assert page.main(["--check"], copy) == 1
