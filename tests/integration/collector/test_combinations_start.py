"""Combinations of role, sinks and options start, become healthy and stop: a covering set, and all of them."""

from __future__ import annotations

import signal
import urllib.request
from typing import TYPE_CHECKING

import pytest
from collector_process import CollectorProcess
from combinations import completed, covering, pairs, selections

from otel_rl.collector import composed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.collector.parts import choices


def to_start() -> Iterator[object]:
    """All combinations; those beyond the covering set are slow, all together."""
    quick = {selection.arguments() for selection in covering()}
    for selection in selections():
        marks = [] if selection.arguments() in quick else [pytest.mark.slow]
        yield pytest.param(selection, id=selection.arguments(), marks=marks)


def started_and_stopped(collector: CollectorProcess) -> int:
    """The exit code after a start and a stop; a signal before the collector listens to signals ends it at once."""
    for _ in range(5):
        with collector:
            with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
                assert b"otelcol_process_uptime" in answer.read()
            code = collector.stop()
        if code != -signal.SIGTERM:
            break
    return code


def test_what_is_always_started_covers_every_two_choices_that_go_together():
    assert set().union(*map(pairs, covering())) == set().union(*map(pairs, selections()))


@pytest.mark.parametrize("selection", list(to_start()))
def test_combination_starts_and_stops(
    otelcol_rl: Path, tmp_path: Path, needed_variables: dict[str, str], selection: choices.Selection
):
    one = tmp_path / "one.yaml"
    one.write_text(composed.compose(completed(selection, tmp_path, needed_variables), None).text)
    collector = CollectorProcess(otelcol_rl, [one], tmp_path, needed_variables)
    assert started_and_stopped(collector) == 0, collector.log()
    assert "deprecated" not in collector.log().lower()
