"""Dumps as slime and verl write them.

verl's lines are those of ``_write_generations`` of verl 0.9.1. slime is in no registry: its files are made with
``torch.save`` of the dictionary that its source has.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from support.charts_once import charts_once

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["charts_once"]
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of its own, and none of the variables of the machine that tests run on."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def verl_dumps(tmp_path: Path) -> Callable[..., Path]:
    """Write ``{step}.jsonl`` of two prompts with two answers each; right is every other one."""

    def write(folder: str = "rollouts", steps: int = 2, **further: Any) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        for step in range(1, steps + 1):
            lines = [
                {
                    "input": f"user\n{place // 2} + 1 = ?\nassistant\n",
                    "output": f"It is {place}, says {folder}.",
                    "gts": "1",
                    "score": float(place % 2),
                    "step": step,
                    "acc": place % 2,
                    "uid": f"{folder}{step}-{place // 2}_{place % 2}_0",
                    **further,
                }
                for place in range(4)
            ]
            (path / f"{step}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.fixture
def rows(capsys: pytest.CaptureFixture[str]) -> Callable[[Path], list[dict[str, Any]]]:
    """What ``otel-rl trajectories`` prints of a run."""

    def read(run: Path) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert main(["trajectories", str(run)]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return read


@pytest.fixture
def exported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[[Path], tuple[list[dict[str, Any]], str]]:
    """Lines of ``otel-rl export --trajectories``, and what it said beside them."""

    def export(run: Path) -> tuple[list[dict[str, Any]], str]:
        capsys.readouterr()
        target = tmp_path / "lines.jsonl"
        assert main(["export", "--trajectories", str(run), "-o", str(target)]) == 0
        captured = capsys.readouterr()
        assert captured.out == f"{target}\n"
        return [json.loads(line) for line in target.read_text().splitlines()], captured.err

    return export
