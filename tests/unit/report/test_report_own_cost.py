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


def test_what_is_of_several_guessed_steps_is_divided_by_their_number(tmp_path: Path) -> None:
    """The step that has the reading may be a long one, as those of Stable-Baselines3 after a rollout are."""
    run = tmp_path / "data" / "run"
    writer = process(run, 0, started=STARTED)
    spent = {"rl.telemetry.cpu_time": 0.008, "rl.loop.cpu_time": 0.4, "rl.loop.cpu_steps": 4}
    for step, (begin, end) in enumerate([(1.0, 1.1), (1.1, 1.2), (1.2, 1.3), (1.3, 2.0)], 1):
        writer.span("rl.rank.step", begin, end, {"rl.loop.iteration": step, **(spent if step == 4 else {})})
    writer.write()
    _has(
        _page(tmp_path, run).texts["foot"],
        "otel-rl used 2 ms of CPU per step, 0.8 % of its 250 ms; the whole process used 100 ms.",
    )


def test_where_no_step_has_it_the_foot_says_nothing_of_it(tmp_path: Path) -> None:
    assert "otel-rl used" not in _page(tmp_path, _run(tmp_path, measured=False)).texts["foot"]
