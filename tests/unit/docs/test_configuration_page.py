"""docs/configuration.md tells of every variable of ours and of no other."""

from __future__ import annotations

import re
from pathlib import Path

from otel_rl.settings import VARIABLES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_every_variable_is_documented_and_no_other():
    documented = set(re.findall(r"^\| `(OTEL_RL_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert documented == set(VARIABLES)
