"""What a site writes into the address of a sink is in no log, at no /status and in no configuration."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import shipped_settings
from bad_input import by_command, neighbour, post
from collector_process import free_ports, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from collector_process import CollectorProcess

PASSWORD, TOKEN = "S3cr3tPassw0rd", "Qu3ryT0ken99"
TO_LGTM = ["--role", "gateway", "--sink", "lgtm"]


def status(collector: CollectorProcess) -> str:
    try:
        with urllib.request.urlopen(f"{collector.health_url}status", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def variables() -> dict[str, str]:
    (port,) = free_ports(1)
    nowhere = f"127.0.0.1:{port}"
    return {
        "OTEL_RL_COLLECTOR_LOKI_URL": f"http://team:{PASSWORD}@{nowhere}",
        "OTEL_RL_COLLECTOR_PROMETHEUS_URL": f"http://{nowhere}/p?token={TOKEN}",
        "OTEL_RL_COLLECTOR_TEMPO_URL": f"http://{nowhere}/key/{TOKEN}",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100",
        shipped_settings.SPAN_METRICS_INTERVAL: "1s",
        shipped_settings.LOG_LEVEL: "debug",
        **shipped_settings.flush_timeout("50ms"),
        **shipped_settings.of_exporters("unhealthy_after", "100ms"),
    }


def test_neither_log_nor_status_nor_configuration_shows_the_password_or_the_token(otelcol_rl: Path, tmp_path: Path):
    given = {**variables(), "XDG_RUNTIME_DIR": str(tmp_path)}
    with by_command(otelcol_rl, tmp_path, TO_LGTM, **given) as collector:
        assert post(collector, neighbour()[1])[0] == 200
        names = ("loki", "prometheus", "tempo")
        # The collector's own logs and metrics go the same way, and fail too.
        wait_for(lambda: all(f"exporter:durable_otlp_http/{name}" in status(collector) for name in names), "red")
        shown = {"status": status(collector), "log": collector.log()}
        (configuration,) = tmp_path.glob("otel-rl-collector-*/gateway-*.yaml")
        shown["configuration"] = configuration.read_text()
    shown["log"] = collector.log()
    assert "Preparing to make HTTP request" in shown["log"]
    assert [what for what, text in shown.items() if PASSWORD in text or TOKEN in text] == []
