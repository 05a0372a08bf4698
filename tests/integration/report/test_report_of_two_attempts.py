"""A real job that is killed and resumed under its run id: one folder, two attempts, the same step numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.report import write_report
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load, overview
from otel_rl.report.subjects.calls import lines
from otel_rl.report.subjects.training import scalars
from otel_rl.store.reader import Reader, find_run

PROGRAM = """
import os, sys, otel_rl
resumed = sys.argv[1] == "resumed"
for step in range(6 if resumed else 1, 21):
    with otel_rl.step(step):
        with otel_rl.phase("sample" if resumed else "generate"):
            for number in range(4):
                with otel_rl.rollout(group_id=number // 2):
                    with otel_rl.tool("search"):
                        pass
                    otel_rl.reward("right", 2 + (number + step) % 2 if resumed else 0)
    if step == 15 and not resumed:
        otel_rl.flush(timeout=10)
        os._exit(1)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("attempts")
    program = directory / "program.py"
    program.write_text(PROGRAM)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment = {**kept, "OTEL_RL_RUN_ID": "nightly", "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    instrument = Path(sys.executable).parent / "opentelemetry-instrument"
    for how, code in (("first", 1), ("resumed", 0)):
        done = subprocess.run(
            [instrument, sys.executable, program, how],
            cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    return directory / "otel-rl"


@pytest.fixture(scope="module")
def collected(folder: Path) -> Collected:
    return Collected(Reader(find_run(folder)), load()).read(lambda _: None)


def test_the_steps_and_curves_are_those_of_the_resumed_attempt_alone(collected: Collected) -> None:
    assert collected.steps.lengths.cell.count == 15
    assert "sample" in collected.steps.phases
    assert "generate" not in collected.steps.phases
    [reward] = [curves[0] for panel, curves in scalars.of_run(collected).panels() if panel.title == "Reward"]
    assert (reward.x, set(reward.y)) == ([float(step) for step in range(6, 21)], {2.5})
    [tools] = lines.of_calls(collected, "seconds").values()
    assert (tools.x, set(tools.numbers)) == (list(range(6, 21)), {4})


def test_the_page_says_which_attempt_it_draws_and_lists_the_other(folder: Path, tmp_path: Path) -> None:
    page = write_report(folder, tmp_path / "page.html").output.read_text(encoding="utf-8")

    assert "Charts over steps show this alone: attempt 0.0." in page
    assert "Loops and attempts" in page
    assert "1 to 15" in page
    assert "6 to 20" in page


def test_what_was_wrong_in_the_first_attempt_is_said_of_that_attempt_alone(collected: Collected) -> None:
    [found] = [one for one in overview.examine(collected).findings if one.code == "no_signal"]

    assert found.text.startswith("No signal since step 1 (attempt 0.0.")
