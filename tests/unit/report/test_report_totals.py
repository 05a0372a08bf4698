"""Totals over processes and restarts, and the summaries of bounded size behind them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, in_one_unit, seconds_cell
from otel_rl.report.core.statistics import Largest, Spread
from otel_rl.report.core.totals import MetricTotals, combined
from otel_rl.report.subjects.calls import call_tables, rollouts, statistics
from otel_rl.report.subjects.calls.statistics import METRICS
from otel_rl.semconv import metrics
from otel_rl.store.reader import Point, Process, Span
from otel_rl.store.tables import RunTables

if TYPE_CHECKING:
    from collections.abc import Iterable

CALLS = metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS
SCORE = metrics.RL_REWARD_SCORE
ONE, TWO = Process("one"), Process("two")


def _counter(
    process: Process, start: int, time: int, value: float, *, cumulative: bool = True, scope: str = "s"
) -> Point:
    return Point(process, scope, CALLS.name, "sum", cumulative, start, time, value, {"a": "b"})


def _sum(*points: Point) -> float:
    totals = MetricTotals((CALLS,))
    for point in points:
        totals.add(point)
    return totals.sum(CALLS)


def test_cumulative_counters_of_several_processes_and_scopes_add_up_to_their_last_values() -> None:
    points = [
        _counter(ONE, 1, 10, 5),
        _counter(ONE, 1, 20, 8),
        _counter(TWO, 1, 15, 100),
        _counter(ONE, 1, 9, 1, scope="t"),
    ]
    assert _sum(*points) == 8 + 100 + 1


def test_a_restarted_counter_keeps_what_it_had_reached() -> None:
    assert _sum(_counter(ONE, 1, 10, 50), _counter(ONE, 11, 20, 60), _counter(ONE, 11, 30, 70)) == 50 + 70


def test_a_counter_that_falls_without_a_new_start_has_restarted() -> None:
    assert _sum(_counter(ONE, 0, 10, 50), _counter(ONE, 0, 20, 3)) == 53


def test_a_point_that_comes_late_or_twice_changes_nothing() -> None:
    assert _sum(_counter(ONE, 1, 20, 8), _counter(ONE, 1, 10, 5), _counter(ONE, 1, 20, 8)) == 8


def test_delta_points_are_summed() -> None:
    assert _sum(*(_counter(ONE, time, time + 1, 2, cumulative=False) for time in range(5))) == 10


def _histogram(process: Process, start: int, counts: list[int], total: float) -> Point:
    return Point(
        process, "s", SCORE.name, "histogram", True, start, start + 5, total, {}, sum(counts), 0.0, 1.0, [0.5], counts
    )  # fmt: skip


def test_histograms_of_processes_and_restarts_combine() -> None:
    totals = MetricTotals((SCORE,))
    for point in (_histogram(ONE, 1, [3, 1], 2.0), _histogram(ONE, 9, [0, 2], 1.5), _histogram(TWO, 1, [4, 0], 0.4)):
        totals.add(point)
    spread = combined(list(totals.of(SCORE)))
    assert (spread.cell.count, spread.cell.total) == (10, pytest.approx(3.9))
    assert spread.quantile(0.5) == pytest.approx(0.5 * 5 / 7)
    assert 0.5 < spread.quantile(0.95) <= 1.0


def test_series_are_grouped_also_by_an_attribute_that_is_a_list() -> None:
    totals = MetricTotals((CALLS,))
    for time in (1, 2):
        totals.add(Point(ONE, "s", CALLS.name, "sum", True, 1, time, 3, {"a": [{"b": time}]}))  # fmt: skip
    assert {key: len(series) for key, series in totals.by(CALLS, "a").items()} == {
        ("[{'b': 1}]",): 1,
        ("[{'b': 2}]",): 1,
    }


def test_metrics_that_no_section_shows_are_not_kept() -> None:
    totals = MetricTotals((SCORE,))
    totals.add(_counter(ONE, 1, 2, 3))
    assert list(totals.of(CALLS)) == []


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200), st.floats(0.01, 1))
def test_quantiles_are_within_a_tenth(values: list[float], share: float) -> None:
    spread = Spread()
    for value in values:
        spread.add(value)
    exact = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    assert spread.quantile(share) == pytest.approx(exact, rel=0.1)


def test_only_the_largest_are_kept_largest_first() -> None:
    largest: Largest[int] = Largest(3)
    for value in (5, 1, 9, 7, 9, 2):
        largest.add(value, value)
    assert largest.items() == [9, 9, 7]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (4e-6, "4 µs"),
        (0.0009996, "1 ms"),
        (0.4123, "412 ms"),
        (0.99996, "1 s"),
        (2.414, "2.41 s"),
        (192, "3 min 12 s"),
        (18_420, "5 h 07 min"),
        (183_600, "2 d 3 h"),
        (-0.2, "-200 ms"),
        (math.nan, "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
    ],
)
def test_durations_read_like_durations(seconds: float | None, text: str) -> None:
    assert human.duration(seconds) == text


def test_numbers_and_sizes_read_like_numbers_and_sizes() -> None:
    assert [human.number(value) for value in (3.0, 12345, 0.000123456, 1234.6, 2.5e12)] == [
        "3",
        "12,345",
        "0.0001235",
        "1,235",
        "2.5e+12",
    ]
    assert [human.size(value) for value in (512, 3174, 1020 << 20, 2.5e9, 3e15)] == [
        "512 B",
        "3.1 KiB",
        "0.996 GiB",
        "2.33 GiB",
        "2,728 TiB",
    ]
    assert human.scientific(3.98e-5) == "3.98 \N{MULTIPLICATION SIGN} 10⁻⁵"
    assert [human.scientific(value) for value in (0.0, 0.25, -0.02)] == ["0", "0.25", "-0.02"]
    assert [human.percent(value) for value in (0, 0.004, 0.371)] == ["0 %", "0.4 %", "37 %"]


def test_a_tool_call_that_both_ends_recorded_is_one_call() -> None:
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
    spans = [
        Span(process, "s", "tools/call add", "t", "i", "", 0, 10, values, [], False, "", 0, is_server)
        for process, is_server in ((ONE, False), (TWO, True))
    ]
    assert [tool.number for tool in statistics.tools(_collected(spans))] == [1]


def _collected(spans: Iterable[Span], totals: MetricTotals | None = None) -> Any:
    """What a report has collected of these spans, as far as calls need it."""
    tables = RunTables()
    for span in spans:
        tables.add(span)
    tables.settle()
    return SimpleNamespace(tables=tables, totals=totals or MetricTotals(()), answers={}, only=None)


def _tool_span(number: int, error: str, outcome: str | None) -> Span:
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "rl.tool.outcome": outcome}
    if error:
        values["error.type"] = error
    return Span(ONE, "s", "execute_tool add", "t", str(number), "", 0, 10, values, [], bool(error), "", 0)


def _shown(spans: Iterable[Span], totals: MetricTotals | None = None) -> dict[str, str]:
    table = call_tables.calls(statistics.tools(_collected(spans, totals)), "Tool")
    [row] = table.rows
    return {title.lstrip(">"): cell.text for title, cell in zip(table.columns, row, strict=True)}


def test_the_table_of_tools_says_how_failed_calls_ended() -> None:
    ended = [("", "ok"), ("httpx.ReadTimeout", "timeout"), ("TimeoutError", "timeout"), ("ValueError", "tool_error")]
    shown = _shown(_tool_span(number, *how) for number, how in enumerate(ended))
    assert shown["Errors"] == "3 (TimeoutError 1, ValueError 1, httpx.ReadTimeout 1)"
    assert shown["Outcome of errors"] == "timeout 2, tool_error 1"


def test_calls_of_tools_that_do_not_exist_count_once_by_the_names_of_their_spans() -> None:
    totals = _tool_histogram(2, {"gen_ai.tool.name": "_OTHER", "rl.tool.outcome": "unknown_tool"})
    shown = _shown([_tool_span(number, "unknown_tool", "unknown_tool") for number in range(2)], totals)
    assert (shown["Tool"], shown["Calls"]) == ("add", "2")


def test_calls_of_tools_that_do_not_exist_count_without_spans_too() -> None:
    shown = _shown([], _tool_histogram(2, {"gen_ai.tool.name": "_OTHER", "rl.tool.outcome": "unknown_tool"}))
    assert (shown["Tool"], shown["Calls"]) == ("_OTHER", "2")


def _tool_histogram(count: int, labels: dict[str, Any] | None = None) -> MetricTotals:
    """So many calls of up to 3 s, in a histogram whose first bucket reaches to 10 s."""
    totals = MetricTotals(METRICS)
    name, bounds = metrics.GEN_AI_EXECUTE_TOOL_DURATION.name, {"bounds": [10.0], "counts": [count, 0]}
    labels = labels or {"gen_ai.tool.name": "add"}
    totals.add(Point(ONE, "s", name, "histogram", True, 1, 2, float(count), labels, count, 0.1, 3.0, **bounds))
    return totals


def test_durations_are_those_of_the_spans_where_these_saw_all_calls() -> None:
    shown = _shown([_tool_span(number, "", "ok") for number in range(4)], _tool_histogram(4))
    assert (shown["Calls"], shown["p50"], shown["p95"]) == ("4", "0.01 µs", "0.01 µs")


def test_of_calls_in_the_first_bucket_of_a_histogram_only_its_bound_is_said() -> None:
    shown = _shown([_tool_span(1, "", "ok")], _tool_histogram(5))
    at_most = "\N{LESS-THAN OR EQUAL TO} 10 s"
    assert (shown["Calls"], shown["p50"], shown["p95"]) == ("5", at_most, at_most)


def test_the_slowest_rollouts_have_their_reward_and_no_single_score() -> None:
    spans = []
    for number, reward in enumerate((1.25, None)):
        values = {"rl.rollout.id": str(number)} | ({} if reward is None else {"rl.rollout.reward": reward})
        spans.append(Span(ONE, "s", "rl.rollout", "t", str(number), "", 0, 10 - number, values, [], False, "", 0))
    table = call_tables.slow_calls(rollouts.slowest(_collected(spans)), "Rollout", "Belongs to")
    assert table.columns[-1] == ">Reward"
    assert [row[-1].text for row in table.rows] == ["1.25", human.UNKNOWN]


def test_quantiles_of_values_that_come_again_are_these_values() -> None:
    spread = Spread()
    for value in (0.0, 0.5, 1.0, 1.0, 2.0):
        spread.add(value)
    half = Spread()
    half.merge(spread)
    half.merge(spread)
    assert [half.quantile(share) for share in (0.1, 0.4, 0.7, 1.0)] == [0.0, 0.5, 1.0, 2.0]


def test_outcomes_of_calls_without_spans_come_from_the_metric() -> None:
    totals = MetricTotals(METRICS)
    for error, outcome, count in (("", "ok", 5), ("cancelled", "cancelled", 2), ("ValueError", "tool_error", 3)):
        labels = {"gen_ai.tool.name": "add", "rl.tool.outcome": outcome} | ({"error.type": error} if error else {})
        name, bounds = metrics.GEN_AI_EXECUTE_TOOL_DURATION.name, {"bounds": [10.0], "counts": [count, 0]}
        totals.add(Point(ONE, "s", name, "histogram", True, 1, 2, float(count), labels, count, 1.0, 1.0, **bounds))
    shown = _shown([_tool_span(1, "ValueError", "tool_error")], totals)
    assert shown["Calls"] == "10"
    assert shown["Errors"] == "3 (ValueError 3), 2 cancelled"
    assert shown["Outcome of errors"] == "tool_error 3"


def test_tools_of_which_nobody_says_how_calls_ended_have_no_such_column() -> None:
    assert "Outcome of errors" not in _shown([_tool_span(1, "ValueError", None)])


def test_durations_of_a_column_have_one_unit_unless_they_are_too_different():
    def shown(*seconds: float | None) -> list[str]:
        table = Table([">Took"], [[seconds_cell(value)] for value in seconds])
        return [row[0].text for row in in_one_unit(table)]

    assert shown(0.000512, 0.00419, None) == ["0.512 ms", "4.19 ms", human.UNKNOWN]
    assert shown(0.5, 2.0, 3.0) == ["0.5 s", "2 s", "3 s"]
    assert shown(0.0004, 2.0) == ["400 µs", "2 s"]
    assert shown(30.0, 192.0) == ["30 s", "3 min 12 s"]
