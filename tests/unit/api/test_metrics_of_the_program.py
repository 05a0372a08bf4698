"""Counters, histograms and values of rollouts that the program names: bounded, checked, and never in its way."""

from __future__ import annotations

import math

import pytest
from support.reward_readers import log_of, reward_means, rows

import otel_rl
from otel_rl.api import program_metrics
from otel_rl.telemetry import drops
from otel_rl.training import trajectories


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, recorded):
    monkeypatch.setattr(program_metrics, "_definitions", {})
    monkeypatch.setattr(program_metrics, "_sets", {})
    trajectories._forget()
    drops.reset()
    yield
    trajectories._forget()


def made(recorded):
    """Points by name, without gauges that other tests have set."""
    gauges = ("rl.", "torch.distributed.", "gauge.")
    return {name: points for name, points in recorded.metrics().items() if not name.startswith(gauges)}


def test_a_counter_adds_up_by_attributes(recorded):
    for hit in (True, True, False):
        otel_rl.count("cache.lookups", hit=hit, tier="disk")
    otel_rl.count("cache.read", 512, unit="By")
    points = recorded.metrics()
    assert {point.attributes["hit"]: point.value for point in points["cache.lookups"]} == {True: 2, False: 1}
    [read] = points["cache.read"]
    assert (read.value, dict(read.attributes)) == (512, {})
    assert drops.snapshot() == {}


def test_a_histogram_of_seconds_has_buckets_of_seconds(recorded):
    for seconds in (0.02, 0.5, 90.0):
        otel_rl.observe("sandbox.start", seconds, unit="s", image="py311")
    otel_rl.observe("diff.lines", 40)
    points = recorded.metrics()
    [start] = points["sandbox.start"]
    assert (start.count, start.sum, start.explicit_bounds[0]) == (3, pytest.approx(90.52), 0.005)
    assert dict(start.attributes) == {"image": "py311"}
    assert points["diff.lines"][0].sum == 40


def test_a_gauge_has_the_last_value_by_attributes(recorded):
    for size in (4, 3):
        otel_rl.gauge("gauge.last", size, shard=0)
    otel_rl.gauge("gauge.last", -1, shard=1)
    points = recorded.metrics()["gauge.last"]
    assert {point.attributes["shard"]: point.value for point in points} == {0: 3, 1: -1}
    assert drops.snapshot() == {}


def test_a_gauge_without_room_for_its_attributes_is_dropped_and_counted(recorded, monkeypatch):
    monkeypatch.setattr(program_metrics, "MOST_SETS", 1)
    otel_rl.gauge("gauge.full", 4, shard=0)
    otel_rl.gauge("gauge.full", 3, shard=1)
    [point] = recorded.metrics()["gauge.full"]
    assert (dict(point.attributes), point.value) == ({"shard": 0}, 4)
    assert drops.snapshot() == {("metrics", "cardinality"): 1}


@pytest.mark.parametrize(
    ("value", "reason"), [("3", "unsupported_type"), (None, "unsupported_type"), (math.nan, "non_finite")]
)
def test_a_gauge_of_no_number_is_dropped_and_counted(recorded, value, reason):
    otel_rl.gauge("gauge.wrong", value)
    assert "gauge.wrong" not in recorded.metrics()
    assert drops.snapshot() == {("metrics", reason): 1}


def test_a_name_is_a_gauge_or_a_counter(recorded):
    otel_rl.count("gauge.kind")
    otel_rl.gauge("gauge.kind", 3)
    assert drops.snapshot() == {("metrics", "instrument_conflict"): 1}


def test_an_attribute_may_have_the_name_of_an_argument(recorded):
    otel_rl.count("calls", name="n", value="v", self="s")
    [point] = recorded.metrics()["calls"]
    assert dict(point.attributes) == {"name": "n", "value": "v", "self": "s"}


@pytest.mark.parametrize(
    "name", ["", "9lives", "with space", "rl.reward.score", "RL.mine", "gen_ai.execute_tool.duration", "otel.x", 7, "é"]
)
def test_a_name_that_is_none_or_taken_is_counted_as_dropped(recorded, name):
    otel_rl.count(name)
    otel_rl.observe(name, 1.0)
    assert not made(recorded)
    assert drops.snapshot() == {("metrics", "invalid_name"): 2}


def test_a_name_stands_for_one_kind_and_one_unit(recorded):
    otel_rl.count("requests", unit="By")
    otel_rl.count("requests")
    otel_rl.observe("requests", 1.0)
    otel_rl.count("requests", unit="s")
    otel_rl.observe("REQUESTS", 1.0)
    assert [point.value for point in recorded.metrics()["requests"]] == [2]
    assert drops.snapshot() == {("metrics", "instrument_conflict"): 3}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "negative"),
        (math.nan, "non_finite"),
        (math.inf, "non_finite"),
        pytest.param(10**400, "non_finite", id="huge"),
        ("1", "unsupported_type"),
        (None, "unsupported_type"),
        (object(), "unsupported_type"),
    ],
)
def test_a_value_that_does_not_count_is_dropped(recorded, value, reason):
    otel_rl.count("calls", value)
    assert not made(recorded)
    assert drops.snapshot() == {("metrics", reason): 1}


def test_names_and_sets_of_attributes_are_bounded(recorded):
    for number in range(program_metrics.MOST_SETS + 50):
        otel_rl.count("tasks", task=number)
    for number in range(program_metrics.MOST_METRICS + 20):
        otel_rl.count(f"metric.{number}")
    points = made(recorded)
    tasks = points.pop("tasks")
    assert len(tasks) == program_metrics.MOST_SETS + 1
    [others] = [point for point in tasks if "otel.metric.overflow" in point.attributes]
    assert others.value == 50
    assert len(points) == program_metrics.MOST_METRICS - 1
    assert drops.snapshot() == {("metrics", "cardinality"): 50, ("metrics", "metric_limit"): 21}


def test_ids_and_too_many_attributes_stay_off_the_series(recorded):
    otel_rl.count("calls", **{"rl.rollout.id": "r", "rl.sample.id": 3, **{f"a{number}": 1 for number in range(12)}})
    [point] = recorded.metrics()["calls"]
    assert sorted(point.attributes) == [f"a{number}" for number in range(8)]
    assert drops.snapshot() == {("metrics", "identifier"): 2, ("metrics", "attribute_limit"): 4}


def test_odd_attribute_values_are_text(recorded, monkeypatch):
    class Odd:
        def __str__(self):
            raise ValueError

    otel_rl.count("calls", a=[1, {"b": 2}], c="x" * 1000, d=math.nan, e=None, f=Odd(), g=10**30)
    [point] = recorded.metrics()["calls"]
    assert len(point.attributes["c"]) == 256
    assert isinstance(point.attributes["a"], str)
    assert "e" not in point.attributes


def test_values_of_rollouts_are_in_their_record_with_average_and_sum_per_step(recorded):
    with otel_rl.step(1):
        for hops in (2, 4):
            with otel_rl.rollout():
                otel_rl.rollout_metric("hops", hops)
                otel_rl.rollout_metric("retries", 1)
                otel_rl.rollout_metric("retries", 1)
        with otel_rl.rollout():
            pass
    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.metric.names"] == ["hops", "retries"]
    assert record.body["rl.rollout.metric.values"] == [[2.0, 4.0, None], [2.0, 2.0, None]]
    assert reward_means(recorded)[1] == {
        "rollout/hops/mean": 3.0,
        "rollout/hops/sum": 6.0,
        "rollout/retries/mean": 2.0,
        "rollout/retries/sum": 4.0,
    }
    found = [row.metrics for row in rows(log_of(record))]
    assert found == [{"hops": 2.0, "retries": 2.0}, {"hops": 4.0, "retries": 2.0}, {}]


def test_values_outside_of_rollouts_and_beyond_the_limit_are_counted(recorded):
    otel_rl.rollout_metric("hops", 1)
    with otel_rl.rollout():
        for number in range(40):
            otel_rl.rollout_metric(f"m{number}", 1)
        otel_rl.rollout_metric("m0", math.nan)
        otel_rl.rollout_metric("m0", "x")
    assert drops.snapshot() == {
        ("metrics", "no_rollout"): 1,
        ("metrics", "cardinality"): 8,
        ("metrics", "non_finite"): 1,
        ("metrics", "unsupported_type"): 1,
    }
