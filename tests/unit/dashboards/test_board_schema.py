"""Grafana's own generated types read every board and lose nothing of it."""

from __future__ import annotations

import json

import pytest

dashboard = pytest.importorskip("grafana_foundation_sdk.models.dashboard")

from grafana_foundation_sdk.cog import plugins  # noqa: E402
from grafana_foundation_sdk.cog.encoder import JSONEncoder  # noqa: E402

#: Keys of the Prometheus data source that the general schema does not describe.
BEYOND_THE_SCHEMA = {
    ("annotations", "list", "step"),
    ("annotations", "list", "tagKeys"),
    ("annotations", "list", "titleFormat"),
    ("templating", "list", "definition"),
}


def lost(before, after, path=()):
    """Paths of what `after` lacks or changed; positions in lists are left out of the path."""
    if isinstance(before, dict):
        for key, value in before.items():
            yield from lost(value, after[key], (*path, key)) if key in after else [(*path, key)]
    elif isinstance(before, list):
        assert len(before) == len(after), path
        for one, other in zip(before, after, strict=True):
            yield from lost(one, other, path)
    elif before != after:
        yield path


def test_a_board_survives_the_round_trip_through_grafanas_types(board):
    plugins.register_default_plugins()
    after = json.loads(json.dumps(dashboard.Dashboard.from_json(board), cls=JSONEncoder))
    assert set(lost(board, after)) <= BEYOND_THE_SCHEMA


def test_the_round_trip_notices_a_key_that_grafana_does_not_know(board):
    plugins.register_default_plugins()
    panel = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
    changed = {**board, "panels": [{**panel, "options": {**panel["options"], "nonsense": 1}}]}
    after = json.loads(json.dumps(dashboard.Dashboard.from_json(changed), cls=JSONEncoder))
    assert ("panels", "options", "nonsense") in set(lost(changed, after))
