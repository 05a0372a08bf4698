"""A program is recorded by ``opentelemetry-instrument`` and its file store becomes a page: writer and reader agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from otel_rl.report import write_report

PROGRAM = """
import sys
import time
import otel_rl

for iteration in range(1, 6):
    with otel_rl.step(iteration):
        with otel_rl.phase("sample"):
            time.sleep(0.02)
        with otel_rl.phase("train"):
            time.sleep(0.01)
        otel_rl.metric("reward", iteration / 5)

with otel_rl.rollout("first"):
    with otel_rl.tool("search"):
        time.sleep(0.01)
    otel_rl.reward("exact", 1.0)

if "fail" in sys.argv:
    raise ValueError("the disk is on fire")
"""


TOOLS = Path(sys.executable).parent


def _run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def _record(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    return _run(folder, TOOLS / "opentelemetry-instrument", sys.executable, "program.py", *arguments)


def test_what_was_recorded_is_on_the_page_of_the_command_that_the_program_s_last_line_names(tmp_path: Path) -> None:
    done = _record(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "otel-rl report ./otel-rl/" in done.stderr
    report = _run(tmp_path, TOOLS / "otel-rl", "report", "otel-rl")
    assert report.returncode == 0
    assert 1 <= len(report.stderr.splitlines()) <= 4
    page = (tmp_path / report.stdout.strip()).read_text(encoding="utf-8")
    for said in ("<h1>program</h1>", "program.py", "normally", "Step time by phase", "first", "search", "exact"):
        assert said in page, said
    assert "Nothing wrong found in " in page


def test_an_uncaught_exception_is_on_the_page(tmp_path: Path) -> None:
    done = _record(tmp_path, "fail")
    assert done.returncode == 1
    assert "the disk is on fire" in done.stderr
    page = write_report(tmp_path / "otel-rl", tmp_path / "page.html").output.read_text(encoding="utf-8")
    assert "failed: ValueError: the disk is on fire" in page
    assert "during step" in page or "before the first step" in page or "after step" in page
