"""The page says what otel-rl itself took of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000


def _run(tmp_path: Path, *, ranks: int = 2, measured: bool = True) -> Path:
    run = tmp_path / "data" / "run"
    for rank in range(ranks):
        writer = process(run, rank, started=STARTED)
        for step in range(1, 5):
            values = {"rl.loop.iteration": step, "rl.rank": rank}
            if measured:
                values |= {"rl.telemetry.cpu_time": 0.004 * (rank + 1), "rl.loop.cpu_time": 2.0}
            writer.span("rl.rank.step", step, step + 1, values)
        writer.write()
    return run


def test_the_foot_says_what_otel_rl_used_of_the_length_of_a_step_of_all_ranks(tmp_path: Path) -> None:
    _has(
        _page(tmp_path, _run(tmp_path)).texts["foot"],
        "otel-rl used 6 ms of CPU per step, 0.6 % of its 1 s; the whole process used 2 s.",
    )


def test_where_no_step_has_it_the_foot_says_nothing_of_it(tmp_path: Path) -> None:
    assert "otel-rl used" not in _page(tmp_path, _run(tmp_path, measured=False)).texts["foot"]
