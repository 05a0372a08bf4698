"""From a board to the JSON that Grafana 11 and later loads as it is.

grafanalib 0.7.1 still writes keys of Grafana 6 and nulls; they are taken out here, once.
"""

from __future__ import annotations

import json
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from dashboards.lib.layout import Board, place
from dashboards.lib.links import TAG, between_boards
from dashboards.lib.variables import DATA_SOURCES, Variable

#: The last version of the classic dashboard schema; Grafana 13 converts it by itself.
SCHEMA_VERSION = 42

_LEGACY_BOARD_KEYS = {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"}
_LEGACY_PANEL_KEYS = {"cacheTimeout", "editable", "error", "height", "hideTimeOverride", "minSpan", "span"}


def render(board: Board) -> str:
    """Return the board's JSON: keys in a stable order, no nulls, a newline at the end."""
    dashboard = core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.description,
        tags=[TAG],
        schemaVersion=SCHEMA_VERSION,
        editable=False,
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        refresh="30s",
        time=core.Time("now-3h", "now"),
        timezone="browser",
        links=[between_boards()],
        templating=core.Templating(list=[*_data_sources(board), *board.variables]),
        annotations=core.Annotations(list=list(board.annotations)),
        panels=place(board.rows),
    ).auto_panel_ids()
    data = json.loads(json.dumps(dashboard.to_json_data(), cls=DashboardEncoder))
    return json.dumps(_modern(data), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _data_sources(board: Board) -> list[Variable]:
    return [source for source in DATA_SOURCES if source["name"] in board.data_sources]


def _modern(dashboard: dict[str, Any]) -> dict[str, Any]:
    board: dict[str, Any] = _without_nulls({k: v for k, v in dashboard.items() if k not in _LEGACY_BOARD_KEYS})
    board["timepicker"] = {}
    board["panels"] = [_modern_panel(panel) for panel in board["panels"]]
    return board


def _modern_panel(panel: dict[str, Any]) -> dict[str, Any]:
    panel = {key: value for key, value in panel.items() if key not in _LEGACY_PANEL_KEYS}
    if panel["type"] == "row":
        return {key: panel[key] for key in ("collapsed", "gridPos", "id", "panels", "title", "type")}
    defaults = panel["fieldConfig"]["defaults"]
    if not defaults["thresholds"]["steps"]:
        del defaults["thresholds"]
    return panel


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
