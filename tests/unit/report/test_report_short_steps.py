"""Of many short steps that are guessed some have spans: the page counts all, and their time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from unit.report.synthetic_run import process

from otel_rl.report.core.collected import Collected
from otel_rl.report.core.summary import summarise
from otel_rl.report.page import page_head
from otel_rl.report.subjects import load, workload
from otel_rl.report.subjects.run_time import shares
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000
ALL, WITH_SPANS, SECONDS = 640, 80, 0.05


def _collected(tmp_path: Path) -> Collected:
    """Steps follow each other from second 10 on; of every eighth there are spans."""
    writer = process(tmp_path / "run", 0, started=STARTED)
    moment = datetime.fromtimestamp(STARTED / 1e9, timezone.utc).isoformat().replace("+00:00", "Z")
    writer.event("rl.run.program", 1, attributes={"process.creation.time": moment})
    length = writer.meter.create_histogram("rl.loop.duration", "s")
    for step in range(ALL):
        length.record(SECONDS)
        if step % (ALL // WITH_SPANS) == 0:
            begins, values = 10 + step * SECONDS, {"rl.loop.iteration": step + 1, "rl.loop.source": "guessed"}
            writer.span("rl.loop", begins, begins + SECONDS, values)
            writer.span("rl.rank.step", begins, begins + SECONDS, values)
    writer.meter.create_counter("rl.train.steps", "{step}").add(ALL)
    writer.meter.create_counter("rl.train.tokens", "{token}").add(ALL * 100)
    writer.write()
    return Collected(Reader(find_run(tmp_path / "run", None)), load()).read(lambda _: None)


def test_tiles_count_all_steps_and_their_tokens_per_second(tmp_path: Path) -> None:
    collected = _collected(tmp_path)
    tiles = {tile.name: tile for tile in page_head.tiles(collected, summarise(collected))}
    assert tiles["Steps"].value == str(ALL)
    assert tiles["Steps"].note.endswith(f"of {WITH_SPANS} with spans")
    assert tiles["Tokens"].note.startswith("2,000 per s")


def test_the_verdict_counts_the_steps_that_were_made(tmp_path: Path) -> None:
    collected = _collected(tmp_path)
    assert workload.extent(collected) == "640 steps"
    assert workload.steps_with_spans(collected) == "80 of 640 steps"


def test_the_time_between_steps_with_spans_is_that_of_steps(tmp_path: Path) -> None:
    collected = _collected(tmp_path)
    seconds = dict(shares.of_run(collected).shares)
    # From the end of the first one to that of the last one with spans.
    assert round(seconds[shares.STEPS], 2) == round((ALL - ALL // WITH_SPANS) * SECONDS, 2)
