"""``otel-rl doctor`` imports the function that ``OTEL_RL_REDACT`` names, in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main
from otel_rl.cli.doctor import redaction_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Problems = Callable[..., list[str]]

pytestmark = pytest.mark.usefixtures("no_variables", "one_library")


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Problems:
    """What doctor finds with a value of the variable."""

    def ask(specification: str, *command: str) -> list[str]:
        monkeypatch.setenv("OTEL_RL_REDACT", specification)
        main(["doctor", "--json", *(["--", *command] if command else [])])
        found: list[str] = json.loads(capfd.readouterr().out)["problems"]
        return found

    return ask


def test_a_function_in_the_working_directory_is_no_problem_and_what_its_module_prints_is_not_shown(
    problems: Problems, tmp_path: Path
) -> None:
    (tmp_path / "privacy.py").write_text("print('at import')\ndef redact(text): return text")
    assert problems("privacy:redact") == []


@pytest.mark.parametrize(
    ("specification", "reason"),
    [
        ("gone:redact", "No module named 'gone'"),
        ("privacy:missing", "module 'privacy' has no attribute 'missing'"),
        ("privacy:VALUE", "VALUE is not a plain function"),
        ("broken:redact", "out of order"),
        ("ends:redact", "its import ends the process with exit code 3"),
        ("privacy", "it must be module:function"),
    ],
)
def test_a_function_that_a_run_could_not_call_is_named_with_the_reason_and_the_fix(
    problems: Problems, tmp_path: Path, specification: str, reason: str
) -> None:
    (tmp_path / "privacy.py").write_text("VALUE = 1")
    (tmp_path / "broken.py").write_text("raise RuntimeError('out of order\\nand more')")
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    (problem,) = problems(specification)
    assert f'OTEL_RL_REDACT="{specification}" cannot be used ({reason})' in problem
    assert "name a function that the program can import" in problem


def test_a_module_that_is_not_found_says_where_it_was_looked_for(problems: Problems, tmp_path: Path) -> None:
    (problem,) = problems("gone:redact")
    assert f"It was looked for in {tmp_path} and on PYTHONPATH" in problem
    assert "otel-rl doctor -- python FOLDER/train.py" in problem


def test_with_a_command_the_module_is_looked_for_beside_its_script(problems: Problems, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "privacy.py").write_text("def redact(text): return text")
    (folder / "train.py").write_text("")
    assert problems("privacy:redact", sys.executable, str(folder / "train.py")) == []


def test_with_a_command_the_working_directory_is_not_searched(problems: Problems, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text("")
    (tmp_path / "privacy.py").write_text("def redact(text): return text")

    (problem,) = problems("privacy:redact", sys.executable, str(folder / "train.py"))
    assert "No module named 'privacy'" in problem


def test_a_function_of_the_script_itself_is_not_imported_before_it_runs(problems: Problems, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from pathlib import Path\nwith Path('runs').open('a') as runs: runs.write('x')\ndef redact(t): return t"
    )
    assert problems("train:redact", sys.executable, str(script)) == []
    assert (tmp_path / "runs").read_text() == "x"


def test_an_import_that_takes_too_long_is_given_up(
    problems: Problems, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(redaction_function, "TIMEOUT", 0.1)
    (tmp_path / "slow.py").write_text("import threading; threading.Event().wait(60)")
    (problem,) = problems("slow:redact")
    assert "its import takes longer than" in problem
