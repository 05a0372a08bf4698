"""The rule files: what Prometheus computes from a run's metrics, and what it wakes people for."""

from __future__ import annotations

from dashboards.rules import alerts, recording

#: File name in ``generated/prometheus`` -> its groups.
RULE_FILES = {
    "recording_rules.yaml": recording.GROUPS,
    "alert_rules.yaml": alerts.GROUPS,
}
