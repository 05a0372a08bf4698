"""The page shows memory over time, garbage collection per step, and what was compiled again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.test_report_page import Page

STARTED = 1_700_000_000_000_000_000
MIB = 1 << 20


@pytest.fixture
def page(tmp_path: Path) -> Page:
    run = tmp_path / "data" / "run"
    for rank in range(2):
        writer = process(run, rank, started=STARTED)
        for step in (1, 2):
            values = {"rl.loop.iteration": step, "rl.rank": rank, "rl.loop.gc_time": 0.25 * step}
            writer.span("rl.rank.step", step, step + 1, values)
        writer.meter.create_up_down_counter("process.memory.usage", "By").add((700 + 100 * rank) * MIB)
        writer.meter.create_up_down_counter("rl.cgroup.memory.limit", "By").add(1024 * MIB)
        writer.meter.create_counter("rl.cgroup.memory.events").add(rank, {"rl.cgroup.memory.event": "oom_kill"})
        collected = writer.meter.create_counter("rl.gc.time", "s")
        collected.add(0.5, {"cpython.gc.generation": 0})
        collected.add(0.25, {"cpython.gc.generation": 2})
        writer.meter.create_counter("rl.compile.recompilations").add(3)
        for iteration in (2, 1):
            writer.event(
                "rl.compile.recompilation",
                iteration,
                attributes={
                    "rl.compile.function": "forward (model.py:12)",
                    "rl.compile.reason": "tensor 'x' size mismatch <at index 0>",
                    "rl.compile.duration": 1.5,
                    "rl.loop.iteration": iteration,
                },
            )
        writer.write()
    return _page(tmp_path, run)


def test_each_process_has_its_memory_limit_kills_and_pauses(page: Page) -> None:
    _has(page.texts["pressure"], "rank 0 700 MiB 1 GiB 0 750 ms", "rank 1 800 MiB 1 GiB 1 750 ms")


def test_equal_recompilations_are_one_row_with_their_first_step(page: Page) -> None:
    row = "forward (model.py:12) tensor 'x' size mismatch <at index 0> 4 6 s 1 rank 0, rank 1"
    _has(page.texts["pressure"], "Compiled again by torch.compile", row)


def test_collections_are_drawn_by_step_and_rank(page: Page) -> None:
    _has(page.texts["pressure"], "Garbage collection per step", "rank 0 rank 1")


def test_a_run_without_them_says_what_would_bring_them(tmp_path: Path) -> None:
    run = tmp_path / "data" / "run"
    process(run, 0, started=STARTED).write()
    _has(_page(tmp_path, run).texts["not-in-this-run"], "Memory and pauses Every process that records tells them")
