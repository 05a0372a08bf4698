"""Every combination of files that the README names is accepted, starts, becomes healthy and stops."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import pytest
import yaml
from collector_process import CONFIGURATION, CollectorProcess

if TYPE_CHECKING:
    from pathlib import Path

COMBINATIONS = [
    ("local.yaml",),
    ("local.yaml", "overlays/debug.yaml"),
    ("local.yaml", "overlays/allow-content.yaml"),
    ("local.yaml", "sinks-lgtm.yaml"),
    ("agent.yaml",),
    ("agent.yaml", "overlays/debug.yaml"),
    ("agent.yaml", "overlays/allow-content.yaml"),
    ("gateway.yaml", "sinks-lgtm.yaml"),
    ("gateway.yaml", "sinks-lgtm.yaml", "overlays/debug.yaml"),
    ("gateway.yaml", "sinks-lgtm.yaml", "overlays/allow-content.yaml"),
]
BASE_FILES = ["local.yaml", "agent.yaml", "gateway.yaml"]
FORMER_NAMES = {
    "receivers": {"filelog", "hostmetrics", "otlpjsonfile"},
    "processors": {"batch", "cumulativetodelta", "deltatocumulative", "k8sattributes", "resourcedetection"},
    "exporters": {"loadbalancing", "logging", "otlp", "otlphttp", "prometheusremotewrite"},
    "connectors": {"servicegraph", "signaltometrics", "spanmetrics"},
}


def load(file: str) -> dict:
    return yaml.safe_load((CONFIGURATION / file).read_text())


def shipped_files() -> list[str]:
    return sorted(str(path.relative_to(CONFIGURATION)) for path in CONFIGURATION.rglob("*.yaml"))


def test_every_shipped_file_is_part_of_a_combination():
    assert shipped_files() == sorted({file for combination in COMBINATIONS for file in combination})


@pytest.mark.parametrize("files", COMBINATIONS, ids=" + ".join)
def test_combination_validates_starts_healthy_and_stops(otelcol_rl: Path, tmp_path: Path, files: tuple[str, ...]):
    collector = CollectorProcess(otelcol_rl, files, tmp_path)
    validated = collector.validate()
    assert validated.returncode == 0, validated.stderr
    with collector:
        with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
            assert b"otelcol_process_uptime" in answer.read()
        assert collector.stop() == 0
    assert "deprecated" not in collector.log().lower()


@pytest.mark.parametrize("file", shipped_files())
def test_no_component_goes_by_a_former_name(file: str):
    for kind, former in FORMER_NAMES.items():
        used = {name.split("/")[0] for name in load(file).get(kind) or {}}
        if kind == "receivers":
            used -= {"otlp"}
        assert not used & former


@pytest.mark.parametrize("file", BASE_FILES)
def test_base_file_listens_on_this_machine_only_by_default(file: str):
    listening = re.findall(r"(?:endpoint|host): (\S+)", (CONFIGURATION / file).read_text())
    for address in listening:
        if "GATEWAY}" not in address:
            assert re.match(r"\$\{env:\w+:-127\.0\.0\.1(:\d+)?\}", address), address


@pytest.mark.parametrize("file", BASE_FILES[1:])
def test_privacy_rules_are_the_same_in_every_base_file(file: str):
    rules = (
        "transform/content",
        "transform/event_name",
        "transform/redaction_in",
        "redaction/secrets",
        "transform/redaction_out",
    )
    expected, found = load(BASE_FILES[0])["processors"], load(file)["processors"]
    assert {name: found[name] for name in rules} == {name: expected[name] for name in rules}


@pytest.mark.parametrize("file", [file for file in shipped_files() if file not in BASE_FILES])
def test_sinks_and_overlays_only_add_pipelines(file: str):
    pipelines = load(file).get("service", {}).get("pipelines", {})
    taken = {name for base in BASE_FILES for name in load(base)["service"]["pipelines"]}
    assert not taken & set(pipelines)
    assert {receiver for pipeline in pipelines.values() for receiver in pipeline["receivers"]} <= {
        "forward/traces_out",
        "forward/metrics_out",
        "forward/logs_out",
    }
    assert set(load(file).get("service", {})) <= {"pipelines"}


def test_every_variable_is_in_the_readme_with_its_default():
    documented = (CONFIGURATION / "README.md").read_text()
    for file in shipped_files():
        for name, default in re.findall(r"\$\{env:(\w+)(?::-([^}]*))?\}", (CONFIGURATION / file).read_text()):
            row = next((line for line in documented.splitlines() if line.startswith(f"| `{name}` |")), None)
            assert row is not None, f"{name} of {file} is not in README.md"
            assert f"`{default}`" in row or not default, f"{name}: {default} of {file} is not in its row"


def test_a_taken_port_is_named_when_the_collector_cannot_start(otelcol_rl: Path, tmp_path: Path):
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path) as first:
        folder = tmp_path / "second"
        folder.mkdir()
        second = CollectorProcess(
            otelcol_rl, ["local.yaml"], folder, {"OTEL_RL_COLLECTOR_HTTP_PORT": str(first.http_port)}
        )
        with pytest.raises(AssertionError, match=f"{first.http_port}: bind: address already in use"):
            second.__enter__()


def test_gateway_without_a_sink_says_so(otelcol_rl: Path, tmp_path: Path):
    validated = CollectorProcess(otelcol_rl, ["gateway.yaml"], tmp_path).validate()
    assert validated.returncode != 0
    assert "no exporter" in validated.stderr


def test_agent_without_its_gateways_names_the_variables(otelcol_rl: Path, tmp_path: Path):
    agent = CollectorProcess(otelcol_rl, ["agent.yaml"], tmp_path)
    for name in ("OTEL_RL_COLLECTOR_GATEWAY", "OTEL_RL_COLLECTOR_GATEWAYS"):
        del agent.environment[name]
    with pytest.raises(AssertionError, match=r"(?s)OTEL_RL_COLLECTOR_GATEWAYS.*OTEL_RL_COLLECTOR_GATEWAY"):
        agent.__enter__()
