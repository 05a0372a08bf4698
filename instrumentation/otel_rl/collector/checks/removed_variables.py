"""Variables that no file reads any longer, each with the setting or the option that replaces it."""

from __future__ import annotations

_EXPORTERS = {
    "GATEWAY": ("exporters.durable_otlp_grpc/gateway_1", "gateway"),
    "OTLP": ("exporters.durable_otlp_grpc/sink", "sink"),
    "LOKI": ("exporters.durable_otlp_http/loki", "loki"),
    "PROMETHEUS": ("exporters.durable_otlp_http/prometheus", "prometheus"),
    "TEMPO": ("exporters.durable_otlp_http/tempo", "tempo"),
}
"""Prefix of the variables of a destination -> its exporter, and the name of its authenticators."""

_OF_A_DESTINATION = {
    "CA_FILE": "{exporter}.tls.ca_file",
    "CERT_FILE": "{exporter}.tls.cert_file",
    "KEY_FILE": "{exporter}.tls.key_file",
    "SERVER_NAME": "{exporter}.tls.server_name_override",
    "TOKEN_FILE": "extensions.bearertokenauth/{name}.filename",
    "TOKEN_HEADER": "extensions.bearertokenauth/{name}.header",
    "TOKEN_SCHEME": "extensions.bearertokenauth/{name}.scheme",
    "USERNAME": "extensions.basicauth/{name}.client_auth.username",
    "PASSWORD_FILE": "extensions.basicauth/{name}.client_auth.password_file",
    "TENANT": "{exporter}.headers.X-Scope-OrgID",
    "INSECURE": "{exporter}.tls.insecure",
    "WHEN_FULL": "{exporter}.when_full",
}

_SETTINGS = {
    "SELF_INTERVAL": "receivers.prometheus/self.config.global.scrape_interval",
    "LOG_LEVEL": "service.telemetry.logs.level",
    "MEMORY_SPIKE_MIB": "spike_limit_mib of extensions.memory_limiter and processors.memory_limiter",
    "REDACTION_RULES": "processors.secret_redaction.rules_file",
    "PERSONAL_DATA": "processors.secret_redaction.personal_data",
    "FINGERPRINTS": "processors.secret_redaction.fingerprints.enabled",
    "HTPASSWD_FILE": "extensions.basicauth/receiver.htpasswd.file",
    "TLS_RELOAD_INTERVAL": "tls.reload_interval of the receivers' protocols and of the exporters",
    "REPLAY_DIR": "receivers.otlp_json_file/replay.include",
    "SPAN_BUDGET": "extensions.trace_budget.spans_per_second",
    "SPAN_METRICS_INTERVAL": "connectors.span_metrics.metrics_flush_interval",
    "SINK_QUEUE_BYTES": "sending_queue.queue_size of the sink's exporters",
    "FLUSH_TIMEOUT": "sending_queue.batch.flush_timeout of the exporters",
    "FILE_WHEN_FULL": "processors.side_sink.when_full",
}

_OPTIONS = {"GATEWAY_COUNT": "add --gateways N to role gateway and unset it"}


def replacement(name: str) -> str:
    """Return what to do instead of setting this variable, named without its prefix; "" where it never existed."""
    if name in _OPTIONS:
        return _OPTIONS[name]
    setting = _SETTINGS.get(name) or _setting_of_a_destination(name)
    return f"write {setting} into a file of yours, add --with-file FILE and unset it" if setting else ""


def _setting_of_a_destination(name: str) -> str:
    destination, _, end = name.partition("_")
    if destination not in _EXPORTERS or end not in _OF_A_DESTINATION:
        return ""
    exporter, authenticator = _EXPORTERS[destination]
    return _OF_A_DESTINATION[end].format(exporter=exporter, name=authenticator)
