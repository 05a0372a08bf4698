"""What is measured: each arrangement is a set of configuration files and the corpus variant that is sent to it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from collector_process import CONFIGURATION

from otel_rl.collector.parts.files import ConfigurationPart
from otel_rl.collector.parts.merge import merge

HERE = Path(__file__).resolve().parent / "collector"
#: Processors that make up redaction: they are what "without redaction" leaves out.
_REDACTION = re.compile(r"^(secret_redaction|redaction|transform/(content|redaction_in|redaction_out))(/|$)")


@dataclass(frozen=True)
class Arrangement:
    """Files, and changes to them that no shipped file makes."""

    files: tuple[Path, ...]
    variant: str = "free_text"
    redaction: bool = True


def _shipped(*names: str) -> tuple[Path, ...]:
    return tuple(CONFIGURATION / name for name in names)


def _gateway(**more: Any) -> Arrangement:
    return Arrangement(_shipped("common.yaml", "gateway.yaml", "sinks/otlp.yaml"), **more)


def _agent(**more: Any) -> Arrangement:
    return Arrangement(_shipped("common.yaml", "agent.yaml"), **more)


ARRANGEMENTS = {
    "plain": Arrangement((HERE / "plain.yaml",)),
    "gateway_without_redaction": _gateway(redaction=False),
    "gateway": _gateway(),
    "gateway_no_free_text": _gateway(variant="no_free_text"),
    "gateway_cold_cache": _gateway(variant="cold_cache"),
    "gateway_worst_case": _gateway(variant="worst_case"),
    "agent": _agent(),
    "agent_no_free_text": _agent(variant="no_free_text"),
    "agent_cold_cache": _agent(variant="cold_cache"),
    "agent_worst_case": _agent(variant="worst_case"),
}


def environment(sink_port: int) -> dict[str, str]:
    """Variables that send everything to the sink and let the sampler decide within the measurement."""
    sink = f"127.0.0.1:{sink_port}"
    return {
        "GOMAXPROCS": "1",
        "OTEL_RL_COLLECTOR_OTLP_ENDPOINT": sink,
        "OTEL_RL_COLLECTOR_GATEWAY": sink,
        "OTEL_RL_COLLECTOR_GATEWAYS": json.dumps([sink]),
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "2s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
    }


def files(arrangement: Arrangement, folder: Path) -> list[Path]:
    """Return the arrangement's files and one more that holds the changes."""
    base = merge([ConfigurationPart(file.name, file.read_text()) for file in arrangement.files])
    changes: dict[str, Any] = {}
    if not arrangement.redaction:
        pipelines = {
            name: {"processors": [each for each in pipeline["processors"] if not _REDACTION.match(each)]}
            for name, pipeline in base["service"]["pipelines"].items()
            if any(_REDACTION.match(each) for each in pipeline.get("processors", []))
        }
        changes["service"] = {"pipelines": pipelines}
    if "durable_otlp_grpc/sink" in base["exporters"]:
        changes["exporters"] = {"durable_otlp_grpc/sink": {"tls": {"insecure": True}}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "changes.yaml").write_text(yaml.safe_dump(changes))
    return [*arrangement.files, folder / "changes.yaml"] if changes else [*arrangement.files]
