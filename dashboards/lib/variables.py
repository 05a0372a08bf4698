"""The selectors at the top of a board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboards.lib import collector, engines
from dashboards.lib.names import label_name
from dashboards.lib.promql import recorded, series
from dashboards.lib.queries import PROMETHEUS
from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

Variable = dict[str, Any]

_ON_TIME_RANGE_CHANGE = 2
_AS_QUERIED, _NATURAL_ORDER = 0, 7
_LABEL_VALUES, _QUERY_RESULT = 1, 3


def _data_source(name: str, kind: str, label: str) -> Variable:
    return {
        "hide": 0,
        "includeAll": False,
        "label": label,
        "multi": False,
        "name": name,
        "options": [],
        "query": kind,
        "refresh": 1,
        "regex": "",
        "type": "datasource",
    }


def _label_values(name: str, label: str, description: str, query: str, *, many: bool) -> Variable:
    variable: Variable = {
        "datasource": PROMETHEUS,
        "definition": query,
        "description": description,
        "hide": 0,
        "includeAll": many,
        "label": label,
        "multi": many,
        "name": name,
        "options": [],
        "query": {"qryType": _LABEL_VALUES, "query": query, "refId": "variable"},
        "refresh": _ON_TIME_RANGE_CHANGE,
        "regex": "",
        "sort": _NATURAL_ORDER,
        "type": "query",
    }
    # Without a value of its own, "All" would list every value and miss the series that lack the label.
    return {**variable, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if many else variable


def in_order(name: str, label: str, description: str, expression: str, attribute: str) -> Variable:
    """Offer the values of ``attribute`` in the order of the series of ``expression``; label values have their own."""
    query = f"query_result({expression})"
    return {
        **_label_values(name, label, description, query, many=False),
        "query": {"qryType": _QUERY_RESULT, "query": query, "refId": "variable"},
        "regex": f'/{label_name(attribute)}="([^"]+)"/',
        "sort": _AS_QUERIED,
    }


def _of_metric(name: str, label: str, description: str, metric: MetricDefinition, attribute: str) -> Variable:
    part = "count" if metric.instrument == "histogram" else ""
    query = f"label_values({series(metric, part=part)}, {label_name(attribute)})"
    return _label_values(name, label, description, query, many=True)


def replicas(rule: str) -> Variable:
    """Offer the engines of which the recording rule has a series, by their address."""
    query = f"label_values({recorded(rule)}, {engines.INSTANCE})"
    return _label_values("replica", "Replica", "Engines of the run, by their address", query, many=True)


DATA_SOURCES = (
    _data_source("prom", "prometheus", "Metrics"),
    _data_source("tempo", "tempo", "Traces"),
    _data_source("loki", "loki", "Logs"),
)

RANK = _of_metric(
    "rank",
    "Rank",
    "Ranks of the run",
    metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS,
    attributes.RL_RANK,
)

REWARD = _of_metric(
    "reward", "Reward function", "Reward functions of the run", metrics.RL_REWARD_SCORE, attributes.RL_REWARD_NAME
)

TRAINER_METRIC = _of_metric(
    "key",
    "Trainer metric",
    "Scalars that the trainer logs, by its own key",
    metrics.RL_TRAINER_METRIC,
    attributes.RL_TRAINER_METRIC_KEY,
)

ROLE = _label_values(
    "role",
    "Role",
    "local, agent or gateway",
    f"label_values({series(collector.UPTIME, run=None)}, {label_name(collector.ROLE)})",
    many=True,
)

INSTANCE = _label_values(
    "instance",
    "Collector",
    "Collectors of the role",
    f"label_values({series(collector.UPTIME, collector.CHOSEN[0], run=None)}, {collector.INSTANCE})",
    many=True,
)

WINDOW: Variable = {
    "auto": True,
    "auto_count": 30,
    "auto_min": "1m",
    "current": {"text": "auto", "value": "$__auto_interval_window"},
    "description": "Rates and quantiles are taken over this much time; choose more than one training step lasts",
    "hide": 0,
    "label": "Averaged over",
    "name": "window",
    "options": [],
    "query": "1m,5m,15m,1h,6h",
    "refresh": 2,
    "type": "interval",
}

SLOWER_THAN: Variable = {
    "current": {"text": "0s", "value": "0s"},
    "description": "Tables of traces show what took at least this long, e.g. 500ms, 30s, 2m",
    "hide": 0,
    "label": "Slower than",
    "name": "slower_than",
    "options": [],
    "query": "0s",
    "type": "textbox",
}
