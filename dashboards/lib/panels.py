"""The kinds of panel that the boards use: grafanalib's skeleton with the options of Grafana 11 and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attr
from grafanalib import core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboards.lib.queries import LokiQuery, PromQuery, Query, TempoQuery

#: The exemplar dots: magenta, on no palette of Grafana.
_EXEMPLAR_COLOR = "rgba(255,0,255,0.7)"
_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"


@attr.s(auto_attribs=True, kw_only=True)
class Panel(core.Panel):  # type: ignore[misc]  # grafanalib is not typed
    """A panel of any type; ``options`` and ``field_config`` are Grafana's own objects."""

    type: str
    queries: tuple[Query, ...]
    options: dict[str, Any] = attr.Factory(dict)
    field_config: dict[str, Any] = attr.Factory(dict)

    def to_json_data(self) -> Any:
        """Return the panel as Grafana reads it, but for the keys that rendering strips."""
        targets = [{"refId": chr(ord("A") + i), **query.to_json_data()} for i, query in enumerate(self.queries)]
        values = {"type": self.type, "targets": targets, "options": self.options, "fieldConfig": self.field_config}
        return self.panel_json(values)


def _panel(kind: str, title: str, description: str, queries: Sequence[Query], **settings: Any) -> Panel:
    values: dict[str, Any] = {
        "type": kind,
        "title": title,
        "description": description,
        "dataSource": queries[0].datasource,
        "queries": tuple(queries),
        # grafanalib's default of 100 would sample an hour every 36 s.
        "maxDataPoints": None,
    }
    return Panel(**values, **settings)


def steps(first: str, *limits: tuple[float, str]) -> dict[str, Any]:
    """Thresholds: the colour below the first limit, then the colour from each limit on."""
    values = [{"color": first}, *({"color": color, "value": limit} for limit, color in limits)]
    return {"mode": "absolute", "steps": values}


def timeseries(
    title: str,
    description: str,
    queries: Sequence[PromQuery | LokiQuery],
    *,
    unit: str,
    minimum: float | None = None,
    maximum: float | None = None,
    log_scale: bool = False,
    thresholds: dict[str, Any] | None = None,
    links: Sequence[dict[str, Any]] = (),
) -> Panel:
    """Lines over time; ``thresholds`` are drawn as lines, ``links`` belong to each point."""
    custom = {
        "axisPlacement": "auto",
        "drawStyle": "line",
        "fillOpacity": 5,
        "insertNulls": False,
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "pointSize": 4,
        "scaleDistribution": {"type": "log", "log": 10} if log_scale else {"type": "linear"},
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "none"},
        "thresholdsStyle": {"mode": "line" if thresholds else "off"},
    }
    defaults = {
        "color": {"mode": "palette-classic"},
        "custom": custom,
        "links": list(links),
        "max": maximum,
        "min": minimum,
        "thresholds": thresholds or steps(GREEN),
        "unit": unit,
    }
    options = {
        "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"hideZeros": False, "mode": "multi", "sort": "desc"},
    }
    return _panel("timeseries", title, description, queries, options=options, field_config=_fields(defaults))


def heatmap(title: str, description: str, query: PromQuery, *, unit: str) -> Panel:
    """Return the buckets of a histogram over time, with exemplars as dots that lead to traces."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "exponent": 0.5,
            "mode": "scheme",
            "reverse": False,
            "scale": "exponential",
            "scheme": "Spectral",
            "steps": 64,
        },
        "exemplars": {"color": _EXEMPLAR_COLOR},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
    }
    return _panel("heatmap", title, description, [query], options=options, field_config=_fields({"unit": unit}))


def stat(
    title: str,
    description: str,
    query: PromQuery,
    *,
    unit: str,
    thresholds: dict[str, Any] | None = None,
    links: Sequence[dict[str, Any]] = (),
) -> Panel:
    """Return the last value as a large number."""
    options = {
        "colorMode": "value",
        "graphMode": "none" if query.instant else "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": _LAST,
        "textMode": "auto",
        "wideLayout": True,
    }
    defaults = {
        "color": {"mode": "thresholds"},
        "links": list(links),
        "thresholds": thresholds or steps(BLUE),
        "unit": unit,
    }
    return _panel("stat", title, description, [query], options=options, field_config=_fields(defaults))


def state_timeline(title: str, description: str, query: PromQuery, *, states: Mapping[int, tuple[str, str]]) -> Panel:
    """One bar per series over time, coloured by its state; ``states``: value -> word, colour."""
    options = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "never",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    words = {
        str(value): {"color": color, "index": index, "text": word}
        for index, (value, (word, color)) in enumerate(states.items())
    }
    defaults = {
        "color": {"mode": "thresholds"},
        "custom": {"fillOpacity": 70, "lineWidth": 0},
        "mappings": [{"options": words, "type": "value"}],
        "thresholds": steps(BLUE),
        "unit": "none",
    }
    return _panel("state-timeline", title, description, [query], options=options, field_config=_fields(defaults))


def bar_gauge(
    title: str,
    description: str,
    query: PromQuery,
    *,
    unit: str,
    thresholds: dict[str, Any] | None = None,
    links: Sequence[dict[str, Any]] = (),
) -> Panel:
    """One bar per series with its last value."""
    options = {
        "displayMode": "basic",
        "minVizHeight": 10,
        "minVizWidth": 0,
        "orientation": "horizontal",
        "reduceOptions": _LAST,
        "showUnfilled": True,
        "valueMode": "color",
    }
    defaults = {
        "color": {"mode": "thresholds"},
        "links": list(links),
        "min": 0,
        "thresholds": thresholds or steps(BLUE),
        "unit": unit,
    }
    return _panel("bargauge", title, description, [query], options=options, field_config=_fields(defaults))


def table(
    title: str,
    description: str,
    queries: Sequence[PromQuery] | Sequence[TempoQuery],
    *,
    unit: str,
    overrides: Sequence[dict[str, Any]] = (),
    transformations: Sequence[dict[str, Any]] = (),
    sort_by: str | None = None,
) -> Panel:
    """Return a table; ``sort_by`` is the column that starts with its largest value on top."""
    options = {
        "cellHeight": "sm",
        "footer": {"show": False},
        "showHeader": True,
        "sortBy": [{"desc": True, "displayName": sort_by}] if sort_by else [],
    }
    defaults = {"custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True}, "unit": unit}
    return _panel(
        "table",
        title,
        description,
        queries,
        options=options,
        field_config=_fields(defaults, overrides),
        transformations=list(transformations),
    )


def logs(title: str, description: str, query: LokiQuery) -> Panel:
    """Log records, newest first; a click on one shows its attributes and the way to its trace."""
    options = {
        "dedupStrategy": "none",
        "enableLogDetails": True,
        "prettifyLogMessage": False,
        "showCommonLabels": False,
        "showLabels": False,
        "showTime": True,
        "sortOrder": "Descending",
        "wrapLogMessage": True,
    }
    return _panel("logs", title, description, [query], options=options, field_config=_fields({"unit": "none"}))


def _fields(defaults: dict[str, Any], overrides: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"defaults": defaults, "overrides": list(overrides)}


def column(name: str, **properties: Any) -> dict[str, Any]:
    """Field settings for one column of a table, e.g. ``column("traceID", links=[...])``."""
    values = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": values}
