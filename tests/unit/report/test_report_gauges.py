"""Values of otel_rl.gauge on the page: a chart per name with a line per set of attributes; the rest is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.report.core.charts import Charts
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.training import program_gauges, section
from otel_rl.store.reader import Point, Process, Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.blocks import PageBlock

ONE, TWO = Process("one"), Process("two")
_SECOND = 1_000_000_000


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    """Of a run without records."""
    (tmp_path / "traces-0001.jsonl").write_text("")
    return Collected(Reader(find_run(tmp_path)), load())


def _give(
    collected: Collected, name: str, *values: float, process: Process = ONE, scope: str = "otel_rl.api", **labels: Any
) -> None:
    for second, value in enumerate(values):
        time = (100 + 15 * second) * _SECOND
        collected.add(Point(process, scope, name, "gauge", False, 0, time, value, labels))
    collected.settle()


def _blocks(collected: Collected) -> list[PageBlock]:
    return section.build(collected, Charts()).blocks


def test_a_gauge_has_a_chart_in_its_group_with_a_line_for_each_set_of_attributes(collected: Collected) -> None:
    for shard in (0, 1):
        _give(collected, "buffer.size", 1.0, 2.0, 3.0, shard=shard)
    _give(collected, "reward/of_shard", 0.5, 0.5, 0.5, shard=3)
    rewards, others = _blocks(collected)
    assert (rewards.title, others.title) == ("Gauges of the program: reward (1)", "Gauges of the program: other (1)")
    assert [drawing.title for drawing in rewards.charts] == ["reward/of_shard shard=3"]
    [chart] = others.charts
    assert (chart.title, [name for name, _ in chart.legend]) == ("buffer.size", ["shard=0", "shard=1"])


def test_processes_with_the_same_attributes_share_a_line(collected: Collected) -> None:
    for process, value in ((ONE, 1.0), (TWO, 3.0)):
        _give(collected, "buffer.size", value, value, value, process=process)
    [(_, [curve], _)] = program_gauges.drawn(collected)
    assert (curve.x, curve.y, curve.low, curve.high) == ([0, 15, 30], [2, 2, 2], [1, 1, 1], [3, 3, 3])


def test_of_a_short_run_the_values_are_said(collected: Collected) -> None:
    _give(collected, "buffer.size", 512.0)
    _give(collected, "queue.age", 1.0, 2.0, queue="a")
    [block] = _blocks(collected)
    assert block.title == "Gauges of the program: one or two points (2)"
    assert block.note == "buffer.size 512, once, at 0 s; queue.age queue=a 1 at 0 s, 2 at 15 s"


def test_what_has_no_room_is_counted(collected: Collected) -> None:
    for shard in range(program_gauges.MOST_SETS + 4):
        _give(collected, "buffer.size", 1.0, 2.0, 3.0, shard=shard)
    for number in range(program_gauges.MOST_NAMES):
        _give(collected, f"queue.{number:02}", 1.0)
    drawn, few, note = _blocks(collected)
    assert few.title == "Gauges of the program: one or two points (59)"
    assert len(drawn.charts[0].legend) == 8
    assert drawn.charts[0].hint == "the first 8 of 12 sets of attributes"
    assert note.note == "Gauges not drawn: queue.59."


def test_gauges_of_others_are_none_of_the_programs(collected: Collected) -> None:
    _give(collected, "buffer.size", 1.0, scope="vllm")
    _give(collected, "rl.trainer.metric", 1.0)
    assert program_gauges.drawn(collected) == []
