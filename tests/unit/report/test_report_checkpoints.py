"""The checkpoints of a run have a table: the latest first, with what has become of them, and the best one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.report.made_up_jobs import examined
from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000


def _run(folder: Path, *, ends: bool = True, ranks: int = 1, left: str = "kept") -> Path:
    run = folder / "data" / "run"
    for rank in range(ranks):
        writer = process(run, rank, world_size=ranks, started=STARTED)
        for number, step in enumerate((100, 200, 300), 1):
            writer.span("rl.rank.step", number, number + 1, {"rl.loop.iteration": step, "rl.rank": rank})
            saved = {
                "rl.checkpoint.number": number,
                "rl.checkpoint.name": f"checkpoint-{step}",
                "rl.checkpoint.format": "trainer",
                "rl.checkpoint.size": number << 20,
                "rl.checkpoint.duration": 0.5 * number,
                "rl.loop.iteration": step,
            }
            writer.event("rl.checkpoint.saved", number + 1, None, saved)
        states = {"rl.checkpoint.number": [3, 2, 1], "rl.checkpoint.state": ["kept", "kept", "deleted"]}
        if left != "kept":
            states |= {
                "rl.checkpoint.state": [left, "kept", "deleted"],
                "rl.checkpoint.size": [1 << 20, 2 << 20, None],
            }
        best = {"checkpoint-200": "name", "eval_loss": "metric", 0.25: "value"}
        if ends:
            said = {f"rl.checkpoint.best.{name}": value for value, name in best.items()}
            writer.event("rl.checkpoint.checked", 5, states, said)
        writer.write()
    return run


def test_checkpoints_have_a_row_each_the_latest_first(tmp_path: Path) -> None:
    text = _page(tmp_path, _run(tmp_path)).texts["checkpoints"]
    _has(text, "300 checkpoint-300 trainer 3 MiB 1.5 s kept 200 checkpoint-200 trainer 2 MiB 1 s kept eval_loss 0.25")
    _has(text, "100 checkpoint-100 trainer 1 MiB 0.5 s moved or deleted", "3 checkpoints saved, 2 kept at the end")


def test_of_a_killed_run_it_is_not_said_what_became_of_them(tmp_path: Path) -> None:
    text = _page(tmp_path, _run(tmp_path, ends=False)).texts["checkpoints"]
    assert "kept" not in text.partition("Best by")[2]


def test_with_several_processes_the_table_says_who_saved(tmp_path: Path) -> None:
    _has(_page(tmp_path, _run(tmp_path, ranks=2)).texts["checkpoints"], "Who", "rank 1")


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("kept", []),
        ("cut", [("cut_checkpoint", "warning", "it is cut.")]),
        ("smaller", [("smaller_checkpoint", "notice", "it seems to have been written anew.")]),
    ],
)
def test_a_checkpoint_that_is_cut_or_smaller_is_a_finding_with_both_sizes(
    tmp_path: Path, left: str, expected: list[tuple[str, str, str]]
) -> None:
    found = [one for one in examined(_run(tmp_path, left=left).parent).findings if one.code.endswith("_checkpoint")]
    said = "Checkpoint checkpoint-300 of step 300 has 1 MiB at the end and had 3 MiB when it had been saved: "
    assert [(one.code, one.severity, one.text.removeprefix(said)) for one in found] == expected
