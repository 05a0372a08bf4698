"""Marks on the time axis of every board."""

from __future__ import annotations

from dashboards.lib.collector import CHOSEN, INSTANCE
from dashboards.lib.names import label_name
from dashboards.lib.promql import THIS_RUN
from dashboards.lib.queries import PROMETHEUS
from otel_rl.semconv import attributes

#: Prometheus' own series of pending and firing alerts.
ALERTS = "ALERTS"
FIRING = f'{ALERTS}{{{THIS_RUN}, alertstate="firing"}}'

#: The same of collectors.
COLLECTOR_ALERTS = f'{ALERTS}{{{", ".join(str(match) for match in CHOSEN)}, alertstate="firing"}}'

FIRING_ALERTS = {
    "datasource": PROMETHEUS,
    "enable": True,
    "expr": FIRING,
    "hide": False,
    "iconColor": "red",
    "name": "Alerts",
    "step": "30s",
    "tagKeys": f"severity,{label_name(attributes.RL_RANK)}",
    "titleFormat": "{{alertname}}",
}

FIRING_COLLECTOR_ALERTS = {**FIRING_ALERTS, "expr": COLLECTOR_ALERTS, "tagKeys": f"severity,{INSTANCE}"}
