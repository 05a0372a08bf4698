"""The rule files: what Prometheus computes from a run's metrics, and what it wakes people for."""

from __future__ import annotations

from dashboards.rules import alerts, collector, collector_signals, engines, health, logged, recording, runs

#: File name in ``generated/prometheus`` -> its groups.
RULE_FILES = {
    "recording_rules.yaml": (*recording.GROUPS, *runs.RECORDING_GROUPS, *health.RECORDING_GROUPS),
    "alert_rules.yaml": (*alerts.GROUPS, *runs.GROUPS, *health.GROUPS),
    "logged_rules.yaml": logged.GROUPS,
    "engine_recording_rules.yaml": engines.RECORDING_GROUPS,
    "engine_alert_rules.yaml": engines.GROUPS,
    "collector_recording_rules.yaml": collector_signals.GROUPS,
    "collector_alert_rules.yaml": collector.GROUPS,
}
