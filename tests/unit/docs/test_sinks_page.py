"""The table of docs/sinks.md is that of the collector's sinks."""

from __future__ import annotations

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11
pytest.importorskip("ruamel.yaml")

from instrumentation import sinks_page  # noqa: E402
from otel_rl.collector.parts.choices import SINKS  # noqa: E402

KNOWN = tomllib.loads(sinks_page.KNOWN.read_text())


def test_the_page_is_the_one_that_the_sinks_give():
    assert sinks_page.main(["--check"]) == 0


def test_a_table_that_was_edited_by_hand_fails_the_check_and_is_written_anew(tmp_path, capsys):
    page = tmp_path / "sinks.md"
    page.write_text(sinks_page.PAGE.read_text().replace("LANGFUSE_URL", "LANGFUSE"))
    assert sinks_page.main(["--check"], page) == 1
    assert "make generate" in capsys.readouterr().err
    assert sinks_page.main([], page) == 0
    assert page.read_text() == sinks_page.PAGE.read_text()


def test_every_sink_says_how_it_was_proven_and_nothing_else_does():
    assert KNOWN.keys() == SINKS.keys()


@pytest.mark.parametrize("sink", SINKS)
def test_the_test_that_proves_a_sink_is_there(sink):
    assert (sinks_page.ROOT / KNOWN[sink]["test"]).exists()
