"""The generated table of what our instrumentors wait for agrees with their classes."""

from __future__ import annotations

import pytest

pytest.importorskip("tomllib")  # Python 3.11

from instrumentation import support_page, trigger_table
from otel_rl.distro.own_triggers import TRIGGERS


def test_the_table_has_what_every_class_declares():
    assert {kind.entry_point_name(): kind.triggers() for kind in support_page.instrumentors()} == TRIGGERS


def test_a_table_that_was_edited_by_hand_fails_the_check_and_is_written_anew(tmp_path, capsys):
    path = tmp_path / "own_triggers.py"
    path.write_text(trigger_table.TABLE.read_text().replace("openai._base_client", "openai._client"))
    assert trigger_table.main(["--check"], path) == 1
    assert "make generate" in capsys.readouterr().err
    assert trigger_table.main([], path) == 0
    assert path.read_text() == trigger_table.TABLE.read_text()
