"""Shared by the tests of frameworks: steps and their phases of what was recorded in this process."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest


class Steps:
    """What has been recorded of steps in this process."""

    def __init__(self, recorded):
        self.recorded = recorded

    @property
    def numbers(self):
        spans = [span for span in self.recorded.spans if span.name == "rl.rank.step"]
        return [span.attributes["rl.loop.iteration"] for span in sorted(spans, key=lambda span: span.start_time)]

    @property
    def phases(self):
        """Step -> how many spans of each phase it has."""
        found = defaultdict(Counter)
        for span in self.recorded.spans:
            if "rl.phase" in span.attributes:
                found[span.attributes.get("rl.loop.iteration")][span.name.removeprefix("rl.")] += 1
        return dict(found)

    @property
    def logged(self):
        """Step and values of each log call, in their order."""
        events = self.recorded.events("rl.step")
        return [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in events]


@pytest.fixture
def steps(recorded):
    return Steps(recorded)
