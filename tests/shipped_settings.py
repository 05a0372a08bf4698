"""Settings of the shipped files that tests change, by their path as the collector writes it; values are YAML."""

from __future__ import annotations

from typing import Any

import yaml

BACKENDS = tuple(f"durable_otlp_http/{name}" for name in ("loki", "prometheus", "tempo"))
LOG_LEVEL = "service::telemetry::logs::level"
SCRAPE_INTERVAL = "receivers::prometheus/self::config::global::scrape_interval"
SPAN_METRICS_INTERVAL = "connectors::span_metrics::metrics_flush_interval"
SPAN_BUDGET = "extensions::trace_budget::spans_per_second"
SIDE_SINK_WHEN_FULL = "processors::side_sink::when_full"
REPLAYED_FILES = "receivers::otlp_json_file/replay::include"
HTPASSWD_FILE = "extensions::basicauth/receiver::htpasswd::file"
FINGERPRINTS = "processors::secret_redaction::fingerprints::enabled"
REDACTION_RULES = "processors::secret_redaction::rules_file"
SINK_INSECURE = "exporters::durable_otlp_grpc/sink::tls::insecure"


def of_exporters(setting: str, value: str, exporters: tuple[str, ...] = BACKENDS) -> dict[str, str]:
    """Return the same setting for each of these exporters."""
    return {f"exporters::{exporter}::{setting}": value for exporter in exporters}


def flush_timeout(value: str, exporters: tuple[str, ...] = BACKENDS) -> dict[str, str]:
    """Return settings for how long a batch waits for more."""
    return of_exporters("sending_queue::batch::flush_timeout", value, exporters)


def memory_spike(value: str) -> dict[str, str]:
    """Return settings for how far below the limit refusing begins."""
    return {f"{section}::memory_limiter::spike_limit_mib": value for section in ("extensions", "processors")}


def split(given: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables, and the settings, whose names are paths."""
    settings = {name: value for name, value in given.items() if "::" in name}
    return {name: value for name, value in given.items() if name not in settings}, settings


def flags(settings: dict[str, str]) -> list[str]:
    """Return the arguments of otelcol-rl for these settings."""
    return [word for path, value in settings.items() for word in ("--config", f"yaml:{path}: {value}")]


def as_file(settings: dict[str, str]) -> str:
    """Return the text of a site's own file with these settings."""
    tree: dict[str, Any] = {}
    for path, value in settings.items():
        *parents, last = path.split("::")
        place = tree
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = yaml.safe_load(value)
    return yaml.safe_dump(tree)
