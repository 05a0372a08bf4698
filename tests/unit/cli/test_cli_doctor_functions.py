"""``otel-rl doctor`` lists the functions that the two variables name, with what becomes of each."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: Any) -> Path:
    """A program with a module beside it."""
    (tmp_path / "my_rewards.py").write_text(
        "def correct(answer): return 1.0\ndef held(answer): return 1.0\nALL = [held]\ndef collect(): ...\n"
    )
    script = tmp_path / "train.py"
    script.write_text("import my_rewards\nmy_rewards.correct(1)\n")
    named = ("my_rewards:correct", "my_rewards:held", "my_rewards:corect", "my_rewrads:correct")
    monkeypatch.setenv("OTEL_RL_REWARD_FUNCTIONS", ",".join(named))
    monkeypatch.setenv("OTEL_RL_ROLLOUT_FUNCTIONS", "my_rewards:collect")
    return script


def _functions(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["variable"], one["name"], one["state"]) for one in found["functions"]]


def test_without_a_program_their_modules_are_looked_for_and_not_imported(program: Path, capsys: Any) -> None:
    code = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert _functions(found) == [
        ("OTEL_RL_ROLLOUT_FUNCTIONS", "my_rewards:collect", "ready"),
        ("OTEL_RL_REWARD_FUNCTIONS", "my_rewards:correct", "ready"),
        ("OTEL_RL_REWARD_FUNCTIONS", "my_rewards:held", "ready"),
        ("OTEL_RL_REWARD_FUNCTIONS", "my_rewards:corect", "ready"),
        ("OTEL_RL_REWARD_FUNCTIONS", "my_rewrads:correct", "failed"),
    ]
    assert "my_rewards" not in sys.modules
    assert code == 1
    [problem] = [one for one in found["problems"] if "my_rewrads" in one]
    assert "no my_rewrads on the import path" in problem


def test_of_a_program_it_tells_what_became_of_each(program: Path, capsys: Any) -> None:
    code = main(["doctor", "--", sys.executable, str(program)])
    said = capsys.readouterr().out
    lines = [line.split(maxsplit=3) for line in said.splitlines() if line.startswith("my_re")]
    assert [(name, state) for name, _, state, _ in lines] == [
        ("my_rewards:collect", "active"),
        ("my_rewards:correct", "active"),
        ("my_rewards:held", "degraded"),
        ("my_rewards:corect", "failed"),
        ("my_rewrads:correct", "failed"),
    ]
    decorator = "otel_rl.reward_function()"
    assert [why for *_, why in lines][2:] == [
        f"is recorded by its name only, not from ALL: call it by its name, or decorate it with {decorator}",
        "is missing: my_rewards has no corect",
        "module my_rewrads was not imported in this process and is not on the import path",
    ]
    assert code == 1
