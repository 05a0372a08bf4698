"""The tail of generation: few rollouts of a step that are still active, where all of them were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.report.synthetic_run import process
from unit.report.test_report_page import _has, _page

from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects.rollouts import finding
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000


def _run(
    tmp_path: Path, *, last: float, steps: int = 6, counted: int = 0, rollouts: int = 40, apart: float = 0.0
) -> Path:
    """Steps of 10 s with 40 rollouts: 39 take 4 s, one takes ``last``; the histogram has ``counted`` more.

    Each begins so many s ``apart`` from the one before.
    """
    writer = process(tmp_path / "data" / "run", 0, world_size=1, started=STARTED)
    duration = writer.meter.create_histogram("rl.rollout.duration", "s")
    for step in range(1, steps + 1):
        at = 10.0 * step
        for number in range(rollouts):
            seconds = last if number == 0 else min(apart or 4.0, 4.0)
            values = {"rl.loop.iteration": step, "rl.rollout.id": f"{step}-{number}"}
            begin = at + number * apart
            writer.span("rl.rollout", begin, begin + seconds, values)
            duration.record(seconds)
        writer.span("rl.rank.step", at, at + 10, {"rl.loop.iteration": step, "rl.rank": 0})
    for _ in range(counted):
        duration.record(1.0)
    return writer.write().parent


def _collected(run: Path) -> Collected:
    return Collected(Reader(find_run(run, None)), subjects.load()).read(lambda _: None)


def test_one_long_rollout_of_forty_is_a_tail(tmp_path: Path) -> None:
    run = _run(tmp_path, last=8.0)
    (found,) = finding.findings(_collected(run), {})

    assert (found.severity.value, found.cost) == ("notice", 0.4)
    assert found.text.startswith("In 50 % of the generation time fewer than a tenth of the step's rollouts")
    _has(_page(tmp_path, run).texts["rollouts"], "In 50 % of the generation time", "6 steps; longest 4 s")


def test_short_tail_is_a_line_and_no_finding(tmp_path: Path) -> None:
    run = _run(tmp_path, last=4.5)

    assert finding.findings(_collected(run), {}) == []
    _has(_page(tmp_path, run).texts["rollouts"], "In 11 % of the generation time")


def test_nothing_is_said_where_a_sampler_has_left_rollouts_out(tmp_path: Path) -> None:
    collected = _collected(_run(tmp_path, last=8.0, counted=100))

    assert finding.tail_of(collected) is None
    assert finding.findings(collected, {}) == []


def test_rollouts_that_all_end_at_once_have_a_tail_of_no_length(tmp_path: Path) -> None:
    tail = finding.tail_of(_collected(_run(tmp_path, last=4.0)))

    assert tail is not None
    assert (tail.steps, tail.generation, tail.tail) == (6, 24.0, 0.0)


@pytest.mark.parametrize(
    ("run", "state", "why"),
    [
        ({"rollouts": 8}, "does_not_apply", "no step has 20 rollouts"),
        ({"last": 0.1, "apart": 0.1}, "does_not_apply", "the rollouts of a step run one after the other"),
        ({"counted": 100}, "not_recorded", "a sampler has left rollouts out"),
    ],
)
def test_why_there_is_no_tail_to_look_for(tmp_path: Path, run: dict[str, float], state: str, why: str) -> None:
    _, check = finding.checks(_collected(_run(tmp_path, **{"last": 4.0, **run})))  # type: ignore[arg-type]

    assert (check.state.value, check.detail) == (state, why)
