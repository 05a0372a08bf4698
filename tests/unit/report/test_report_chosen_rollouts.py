"""Of rollouts beyond a number only slow and failed ones have spans: what the report compares leaves these out."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, examined
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.report import write_report
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
BEYOND = {"rl.sampling.beyond_limit": 1}
#: Rollouts that the run had, and seconds for which it went on.
ALL, SECONDS = 900, 60


@pytest.fixture
def writer(tmp_path: Path) -> ProcessWriter:
    return process(tmp_path / tmp_path.name, None, started=STARTED)


def _rollout(writer: ProcessWriter, number: int, at: float, seconds: float, values: dict[str, Any]) -> None:
    own = {**values, "rl.rollout.id": f"r-{number}"}
    root = writer.span("rl.rollout", at, at + seconds, own)
    writer.span("chat m", at, at + 0.9 * seconds, {**CHAT, **own}, root)


def _stationary(writer: ProcessWriter, *, fair_until: int = SECONDS, slower_from: int = SECONDS) -> None:
    """A run whose calls take the same time throughout, and of each second also a slow one that was chosen."""
    chance = random.Random(0)  # noqa: S311 - the same run each time
    for second in range(SECONDS):
        times = 3 if second >= slower_from else 1
        for place in range(4 if second < fair_until else 0):
            _rollout(writer, 10 * second + place, second + place / 8, times * chance.uniform(0.1, 0.3), {})
        if second >= SECONDS // 2:
            _rollout(writer, 10 * second + 9, second, 0.8, BEYOND)
    seconds = [chance.uniform(0.1, 0.3) for _ in range(ALL)]
    body = {"rl.rollout.seconds": seconds, "rl.rollout.status": ["failed", *["finished"] * (ALL - 1)]}
    writer.event("rl.trajectories", SECONDS, body, {"rl.trajectories.source": "rollout"})
    writer.write()


def _changes(writer: ProcessWriter) -> dict[str, str]:
    codes = ("slower_model", "slower_rollouts")
    return {found.code: found.text for found in examined(writer.folder.parent).findings if found.code in codes}


def test_slow_rollouts_that_were_chosen_are_no_slowdown(writer: ProcessWriter) -> None:
    _stationary(writer)
    assert _changes(writer) == {}


def test_no_slowdown_is_claimed_of_a_part_of_the_run_with_chosen_spans_only(writer: ProcessWriter) -> None:
    _stationary(writer, fair_until=SECONDS // 2)
    assert _changes(writer) == {}


def test_a_slowdown_of_those_that_were_not_chosen_is_found(writer: ProcessWriter) -> None:
    _stationary(writer, slower_from=40)
    found = _changes(writer)
    assert "since 40 s after the start" in found["slower_model"]


def test_number_and_durations_of_rollouts_are_those_of_the_rows(writer: ProcessWriter) -> None:
    _stationary(writer)
    collected = Collected(Reader(find_run(writer.folder.parent)), load()).read(lambda _: None)
    of_run = rollouts.of_run(collected).statistics
    assert (of_run.number, of_run.failed) == (ALL, 1)
    assert of_run.durations.cell.maximum < 0.3
    # The slowest that can be looked at are the chosen ones.
    assert rollouts.slowest(collected)[0].seconds == pytest.approx(0.8)
    [model] = statistics.models(collected)
    assert model.durations.cell.maximum < 0.3


def test_page_counts_all_rollouts(writer: ProcessWriter, tmp_path: Path) -> None:
    _stationary(writer)
    page = write_report(writer.folder.parent, tmp_path / "p.html").output.read_text(encoding="utf-8")
    words = re.sub(r"<[^>]+>|\s+", " ", page)
    assert re.search(r"Rollouts +900 +1 failed", words)
