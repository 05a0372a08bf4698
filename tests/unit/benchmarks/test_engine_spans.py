"""The judge of `benchmarks/engine_spans.py` counts only what joins the right rollout, and misses what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytest.importorskip("grpc")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import engine_spans

    return engine_spans


def right(judge, *spans: tuple[str, str, str]) -> list[str]:
    """Requests that join; of two rollouts with one request each."""
    rollouts = {"0": judge.Place("t0", "", "r0"), "1": judge.Place("t1", "", "r1")}
    places = judge.by_request((request, judge.Place(trace, parent, "s")) for request, trace, parent in spans)
    return judge.children_of(rollouts, places, {"0-0": "0", "1-0": "1"})


def test_a_span_counts_in_the_trace_of_its_rollout_and_below_it(judge):
    assert right(judge, ("0-0", "t0", "r0"), ("1-0", "t1", "r1")) == ["0-0", "1-0"]


@pytest.mark.parametrize(
    "spans",
    [
        [("1-0", "t1", "r1")],
        [("0-0", "t1", "r1"), ("1-0", "t1", "r1")],
        [("0-0", "t0", "other"), ("1-0", "t1", "r1")],
        [("0-0", "t0", "r0"), ("0-0", "t0", "r0"), ("1-0", "t1", "r1")],
    ],
    ids=["missing", "in the rollout of another", "not below the rollout", "twice"],
)
def test_a_request_whose_span_is_elsewhere_missing_or_double_does_not_count(judge, spans):
    assert right(judge, *spans) == ["1-0"]
