"""Gymnasium instrumented, and nothing counted yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("gymnasium")

from otel_rl.instrumentors.gymnasium import GymnasiumInstrumentor
from otel_rl.training import environments, steps

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counted:
    """What has been counted since the test began."""

    def __init__(self, recorded) -> None:
        self._recorded = recorded

    def tally(self, name, *, evaluation=False):
        return environments._counts.tallies[name, evaluation]

    def episodes(self, name, *, evaluation=False):
        """Return and length of each."""
        return [(one.gain, one.length) for one in self.tally(name, evaluation=evaluation).latest]

    def successes(self, name):
        return [one.success for one in self.tally(name).latest]

    @property
    def steps(self):
        return environments._steps_by_name()

    @property
    def names(self):
        return {name for name, _ in environments._counts.tallies}

    def points(self, name):
        """Values of the gauges and counters of an environment by metric."""
        return {
            metric: point.value
            for metric, points in self._recorded.metrics().items()
            for point in points
            if point.attributes.get("rl.environment.name") == name
        }


@pytest.fixture
def counted(recorded) -> Iterator[Counted]:
    environments._forget()
    instrumentor = GymnasiumInstrumentor()
    instrumentor.instrument()
    yield Counted(recorded)
    instrumentor.uninstrument()
    steps.contributors.remove(environments._step_closing)
