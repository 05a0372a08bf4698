"""How often metrics are collected."""

from __future__ import annotations

import time

import pytest

from otel_rl.pipeline import metric_reader
from otel_rl.pipeline.metric_reader import LazyMetricReader

INTERVAL = 15.0


class Thread:
    def __init__(self):
        self.tasks = []

    def start(self):
        return True


class Gate:
    def is_open(self):
        return True


@pytest.fixture
def reader(monkeypatch):
    monkeypatch.setattr(metric_reader.time, "monotonic", lambda: 1000.0)
    reader = LazyMetricReader(sink=None, thread=Thread(), gate=Gate(), interval=INTERVAL)
    monkeypatch.setattr(reader, "_collect_guarded", lambda: True)
    return reader


def test_metrics_are_collected_at_their_interval(reader):
    reader.run()
    assert reader.next_run() == time.monotonic() + INTERVAL
