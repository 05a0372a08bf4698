"""Syncs that brought nothing or a part are findings; the stages of a sync have a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.report.made_up_jobs import examined
from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

from otel_rl.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000
PARTIAL = {
    "rl.sync.verdict": "partial",
    "rl.sync.operation": "update_weights",
    "rl.sync.tensors.names": ["model.norm.weight"],
}


def _run(tmp_path: Path, *, checks: int = 3, problems: tuple[int, ...] = ()) -> Path:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=STARTED)
    seconds = writer.meter.create_histogram("rl.sync.operation.duration", "s")
    for step in (1, 2, 3):
        writer.span("rl.rank.step", step, step + 1, {"rl.loop.iteration": step, "rl.rank": 0})
        seconds.record(2.0, {"rl.sync.operation": "update_weights"})
        seconds.record(0.5, {"rl.sync.operation": "reset_prefix_cache"})
    seconds.record(1.0, {"rl.sync.operation": "wake_up", "error.type": "RuntimeError"})
    writer.meter.create_counter("rl.sync.transferred", "By").add(3 << 20, {"rl.sync.operation": "update_weights"})
    if checks:
        writer.meter.create_counter("rl.sync.checks").add(checks, {"rl.sync.verdict": "current"})
    for step in problems:
        text = "Of the engine's tensors 8 have changed, 1 should have and have not (after update_weights): model.norm."
        writer.event("rl.sync.problem", step, text, {**PARTIAL, "rl.loop.iteration": step}, severity=13)
    writer.write()
    return run


def test_a_partial_sync_is_one_finding_with_its_steps_and_tensors(tmp_path: Path) -> None:
    found = examined(_run(tmp_path, problems=(2, 3)))
    [one] = [one for one in found.findings if one.code == "partial_sync"]
    assert one.text.startswith(
        "A part of the new weights did not reach the engine 2 times, first in step 2, last in step 3: Of the engine's "
    )
    assert (one.severity, one.onset, one.evidence) == ("critical", 2, ["Tensors: model.norm.weight."])
    assert found.findings[0] is one


def test_a_run_that_was_compared_says_so_and_another_says_that_it_was_not(tmp_path: Path) -> None:
    what = "an engine whose weights are not the trainer's"
    [compared] = [one for one in examined(_run(tmp_path / "a")).checks if one.what == what]
    [not_compared] = [one for one in examined(_run(tmp_path / "b", checks=0)).checks if one.what == what]
    assert (compared.state, not_compared.state) == ("checked", "not_recorded")


def test_the_stages_of_a_sync_have_a_row_each_the_longest_first(tmp_path: Path) -> None:
    text = _page(tmp_path, _run(tmp_path)).texts["steps"]
    _has(text, "Weight sync by stage", "update_weights 3 6 s 2 s", "3 MiB", "reset_prefix_cache 3 1.5 s 0.5 s")
    _has(text, "wake_up 1 1 s 1 s")
    assert text.index("update_weights") < text.index("reset_prefix_cache") < text.index("wake_up")


def test_programs_get_the_stages_of_a_sync_in_seconds_and_bytes(tmp_path: Path) -> None:
    found = write_report(_run(tmp_path), tmp_path / "page.html").weight_syncs
    assert found == [
        {"operation": "update_weights", "times": 3, "seconds": 6.0, "failed": 0, "bytes": 3 << 20},
        {"operation": "reset_prefix_cache", "times": 3, "seconds": 1.5, "failed": 0, "bytes": None},
        {"operation": "wake_up", "times": 1, "seconds": 1.0, "failed": 1, "bytes": None},
    ]
