"""`otel-rl top`: one frame for scripts, and a screen of 80 by 24 that q ends."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

from integration.live.live_command import SCRIPTS, TIMEOUT, environment
from unit.report.synthetic_run import GrpoRun

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _once(folder: Path, *arguments: str, **variables: str) -> str:
    command = [SCRIPTS / "otel-rl", "top", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, **variables), check=True, capture_output=True, text=True,
        timeout=TIMEOUT,
    ).stdout  # fmt: skip


def test_one_frame_has_the_essentials_in_80_columns_without_control_codes(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "otel-rl").write()
    frame = _once(tmp_path, "--once")
    assert "\x1b" not in frame
    assert max(map(len, frame.splitlines())) <= 80
    first, second = frame.splitlines()[:2]
    assert first.startswith(run.name)
    assert re.match(r"step [\d,]+  [\d.]+ m?s a step", second)
    for part in ("Values", "Reward", "KL divergence", "Processes", "rank 0", "rank 1", "Findings"):
        assert part in frame
    # Without a terminal it is the same.
    assert _once(tmp_path).splitlines()[0] == first


def test_values_that_differ_by_rounding_only_are_a_flat_line() -> None:
    from otel_rl.live.terminal import sparkline

    assert sparkline([0.5658, 0.5658 + 6e-8] * 3) == "▁▁▁▁▁▁"
    assert sparkline([0.5658, 0.5659] * 2) == "▁█▁█"
    assert sparkline([0.0, 1e-9]) == "▁█"


def test_names_of_the_run_are_no_commands_for_the_terminal() -> None:
    from rich.console import Console

    from otel_rl.live import terminal

    content = {"program": "\x1b[2J\x07train.py [bold]x[/bold]", "phases": {"\x1b]0;evil\x07": 1.0}}
    content["values"] = [
        {"title": "\x1b[31mloss", "key": "loss", "last": float("nan"), "curve": [1.0, float("nan"), 2.0]}
    ]
    view = terminal.View("run\x1b[0m", content=content)
    console = Console(width=80, no_color=True, file=open(os.devnull, "w"), record=True)  # noqa: SIM115, PTH123
    console.print(terminal.frame(view, 80, 24))
    text = console.export_text()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_a_screen_of_80_by_24_is_refreshed_in_place_until_q(tmp_path: Path) -> None:
    GrpoRun(tmp_path / "otel-rl").write()
    control, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80)) if sys.version_info >= (3, 11) else None
    process = subprocess.Popen(
        [SCRIPTS / "otel-rl", "top"], cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal,
        env=environment(tmp_path, TERM="xterm", NO_COLOR="1"),
    )  # fmt: skip
    os.close(terminal)
    try:
        shown = _read_until(control, "q: quit")
        os.write(control, b"q")
        rest = _read_until(control, "\x1b[?1049l")
        assert process.wait(TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
        os.close(control)
    assert "\x1b[?1049h" in shown
    assert "Processes" in shown
    # No colour: attributes such as bold may be there.
    assert not re.search(r"\x1b\[(?:\d+;)*3[1-7]m", shown + rest)


def _read_until(descriptor: int, wanted: str) -> str:
    text, deadline = "", time.monotonic() + TIMEOUT
    while wanted not in text:
        assert time.monotonic() < deadline, text
        if select.select([descriptor], [], [], 1.0)[0]:
            text += os.read(descriptor, 65536).decode(errors="replace")
    return text


def test_without_rich_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object) -> None:
    from otel_rl.cli import main

    GrpoRun(tmp_path / "otel-rl").write()
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich" or name == "otel_rl.live.terminal"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["top", str(tmp_path / "otel-rl"), "--once"]) == 2
    said = capsys.readouterr().err  # type: ignore[attr-defined]
    fix = "pip install rich, or install otel-rl with its extra `live`"
    assert said == "otel-rl top: needs rich, which is not installed: " + fix + "\n"


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPTS / "otel-rl", "top", tmp_path / "none"], env=environment(tmp_path), capture_output=True, text=True,
        check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no such folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1
