"""docs/configuration.md has every variable of ours and no other."""

from __future__ import annotations

import re
from pathlib import Path

from instrumentation import configuration_page
from otel_rl.core.settings import VARIABLES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_every_variable_is_documented_and_no_other():
    documented = set(re.findall(r"^\| `(OTEL_RL_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert documented == {variable.name for variable in VARIABLES.values()}


def test_the_table_is_the_one_that_the_settings_give():
    assert configuration_page.main(["--check"]) == 0


def test_a_table_that_was_edited_by_hand_fails_the_check_and_is_written_anew(tmp_path, capsys):
    page = tmp_path / "configuration.md"
    page.write_text(PAGE.read_text().replace("| `5` |", "| `6` |"))

    assert configuration_page.main(["--check"], page) == 1
    assert "make generate" in capsys.readouterr().err
    assert configuration_page.main([], page) == 0
    assert page.read_text() == PAGE.read_text()
