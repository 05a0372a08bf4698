"""Blocks of event loops: one finding that names the function and who waited, and a table of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, examined
from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.report.core.finding import Finding


@pytest.fixture
def writer(tmp_path: Path) -> ProcessWriter:
    return process(tmp_path / "run", 0, started=STARTED)


def _rollouts(writer: ProcessWriter, number: int, seconds: float) -> None:
    for rollout in range(number):
        writer.span("rl.rollout", 1, 1 + seconds, {"rl.rollout.id": str(rollout)})


def _block(
    writer: ProcessWriter,
    number: int,
    seconds: float,
    rollouts: int,
    function: str = "tools.search",
    step: int = 4,
    **more: Any,
) -> None:
    values = {
        "rl.event_loop.blocked.duration": seconds,
        "rl.event_loop.blocked.number": number,
        "rl.event_loop.blocked.total": more.pop("total", seconds * number),
        "rl.event_loop.blocked.state": "waits",
        "code.function.name": function,
        "code.file.path": "/home/user/agent/tools.py",
        "code.line.number": 41,
        "rl.event_loop.rollouts": rollouts,
        "rl.event_loop.model_calls": more.pop("calls", 0),
        "rl.loop.iteration": step,
    }
    writer.event("rl.event_loop.blocked", number, attributes=values | more)


def _findings(writer: ProcessWriter) -> list[Finding]:
    writer.write()
    return [one for one in examined(writer.folder.parent).findings if one.code == "blocked_event_loop"]


def test_the_finding_names_function_line_waiting_rollouts_and_steps(writer: ProcessWriter) -> None:
    _rollouts(writer, 11, 20)
    for number in range(1, 7):
        _block(writer, number, 1.5, 11, step=number + 3)
    _block(writer, 7, 3.0, 11, "tools.tokenize", total=12.0)
    [one] = _findings(writer)
    assert one.text == (
        "The event loop of rank 0 was blocked for 12 s in 7 stretches, 9 s of it by tools.search (tools.py:41);"
        " up to 11 rollouts were open in 6 steps from 4 to 9: rollouts lose 55 % of their time."
    )
    assert one.evidence == ["tools.tokenize (tools.py:41) blocked it for 3 s of that."]
    assert (one.severity, one.onset) == ("warning", 4)
    assert one.cost == pytest.approx(12 * 10 / 220)


def test_blocks_while_nobody_else_waited_are_no_finding(writer: ProcessWriter) -> None:
    """A driver that trains in its loop between two batches of rollouts, or a program with one rollout at a time."""
    _rollouts(writer, 4, 20)
    _block(writer, 1, 30.0, 0)
    _block(writer, 2, 30.0, 1)
    assert _findings(writer) == []


def test_short_blocks_of_a_long_run_are_no_finding(writer: ProcessWriter) -> None:
    _rollouts(writer, 100, 100)
    _block(writer, 1, 0.3, 100)
    assert _findings(writer) == []


def test_the_first_use_of_a_library_in_a_program_of_seconds_is_no_finding(writer: ProcessWriter) -> None:
    _rollouts(writer, 12, 1)
    _block(writer, 1, 0.3, 12, step=0)
    assert _findings(writer) == []


def test_pauses_of_the_garbage_collector_are_called_so_and_say_what_helps(writer: ProcessWriter) -> None:
    _rollouts(writer, 10, 20)
    for number in range(1, 5):
        _block(writer, number, 1.0, 10, "garbage collection", **{"code.file.path": "", "code.line.number": 0})
    [one] = _findings(writer)
    assert "by garbage collection; up to 10 rollouts" in one.text
    assert one.look_at[0].startswith("`gc.freeze()`")


def test_a_small_share_of_the_rollouts_is_a_notice(writer: ProcessWriter) -> None:
    _rollouts(writer, 10, 100)
    _block(writer, 1, 4.0, 10)
    [one] = _findings(writer)
    assert one.severity == "notice"


def test_model_calls_without_rollouts_may_wait_too(writer: ProcessWriter) -> None:
    _block(writer, 1, 4.0, 0, calls=16)
    [one] = _findings(writer)
    assert "; up to 16 model calls were open in step 4." in one.text


def test_a_block_that_was_told_while_it_lasted_counts_once(writer: ProcessWriter) -> None:
    _block(writer, 1, 10.0, 5, total=10.0, **{"rl.event_loop.blocked.ongoing": True})
    _block(writer, 1, 14.0, 5)
    _block(writer, 2, 10.0, 5, total=24.0, **{"rl.event_loop.blocked.ongoing": True})
    [one] = _findings(writer)
    assert one.text.startswith("The event loop of rank 0 was blocked for 24 s in 2 stretches, by tools.search")


def test_the_table_has_all_blocks_and_says_what_has_no_event(tmp_path: Path, writer: ProcessWriter) -> None:
    _block(writer, 1, 0.5, 1)
    _block(writer, 90, 0.75, 12, total=60.25)
    writer.write()
    page = _page(tmp_path, writer.folder.parent)
    _has(page.texts["pressure"], "Functions that blocked an event loop", "88 further blocks, 59 s, have no event.")
    _has(page.texts["pressure"], "tools.search (tools.py:41) 2 1.25 s 750 ms waits 12 0 4 rank 0")


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_run_without_a_watched_loop_says_that_none_was_seen(writer: ProcessWriter, is_watched: bool) -> None:
    if is_watched:
        writer.meter.create_histogram("rl.event_loop.lag", "s").record(0.0)
    _rollouts(writer, 1, 1)
    writer.write()
    [check] = [
        one
        for one in examined(writer.folder.parent).checks
        if one.what == "event loops that are blocked while rollouts or calls wait"
    ]
    assert (check.state, check.points) == (("checked", 1) if is_watched else ("does_not_apply", 0))
