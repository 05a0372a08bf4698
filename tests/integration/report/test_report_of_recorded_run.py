"""A program is recorded by ``opentelemetry-instrument`` and its file store becomes a page: writer and reader agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def _record(tmp_path: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the program recorded, then the command that its summary line names; the page."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    tools = Path(sys.executable).parent
    command = [tools / "opentelemetry-instrument", sys.executable, "program.py", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    report = subprocess.run(
        [tools / "otel-rl", "report", "otel-rl"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert report.returncode == 0
    assert 1 <= len(report.stderr.splitlines()) <= 4
    return done, (tmp_path / report.stdout.strip()).read_text(encoding="utf-8")


def test_what_was_recorded_is_on_the_page(tmp_path: Path) -> None:
    done, page = _record(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "otel-rl report ./otel-rl/" in done.stderr
    for said in ("<h1>program</h1>", "program.py", "normally", "Step time by phase", "first", "search", "exact"):
        assert said in page, said
    assert "Nothing wrong found in " in page


def test_an_uncaught_exception_is_on_the_page(tmp_path: Path) -> None:
    done, page = _record(tmp_path, "fail")
    assert done.returncode == 1
    assert "the disk is on fire" in done.stderr
    assert "failed: ValueError: the disk is on fire" in page
    assert "during step" in page or "before the first step" in page or "after step" in page
