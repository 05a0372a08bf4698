"""The names of the collector's metrics in boards, rules and documents are those of the components' metadata."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dashboards.lib import collector

ROOT = Path(__file__).resolve().parents[3]
COMPONENTS = ROOT / "otelcol-builder" / "components"
FOLDERS = ("dashboards", "docs", "collector-config", "compose", "otelcol-builder/components")
SUFFIXES = {".md", ".json", ".yaml"}
#: Metrics of the collector itself; the stack's tests scrape the real program and compare.
STOCK = {
    *(
        f"otelcol_{part}_{items}"
        for part in (
            "receiver_accepted",
            "receiver_refused",
            "exporter_sent",
            "exporter_send_failed",
            "exporter_enqueue_failed",
            "processor_memory_limiter_refused",
        )
        for items in collector.SIGNALS
    ),
    "otelcol_exporter_queue_capacity",
    "otelcol_exporter_queue_size",
    "otelcol_process_cpu_seconds",
    "otelcol_process_memory_rss",
    "otelcol_process_uptime",
    "otelcol_processor_tail_sampling_sampling_trace_dropped_too_early",
    "otelcol_processor_tail_sampling_sampling_traces_on_memory",
}
#: A label that every metric of a component may carry.
LABELS = {"otelcol_component_id"}


def own():
    """The metrics of our components by name, as their metadata describes them."""
    found = {}
    for file in COMPONENTS.rglob("metadata.yaml"):
        described = yaml.safe_load(file.read_text()).get("telemetry", {}).get("metrics", {})
        found |= {f"otelcol_{name}": metric for name, metric in described.items()}
    return found


OWN = own()


def named():
    """Each name in a board, a rule, a configuration or a document, with the files that have it."""
    files = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in SUFFIXES)
    found: dict[str, set[str]] = {}
    for file in files:
        for name in re.findall(r"\botelcol_[a-z0-9_]*[a-z0-9](?![a-z0-9_])", file.read_text()):
            found.setdefault(name.removesuffix("_total"), set()).add(str(file.relative_to(ROOT)))
    return found


def test_every_name_of_a_collector_metric_is_in_a_metadata_file_or_of_the_stock_collector():
    unknown = {name: files for name, files in named().items() if name not in OWN.keys() | STOCK | LABELS}
    assert not unknown


def test_the_search_finds_names_in_every_kind_of_file():
    where = set().union(*named().values())
    assert "docs/collector-durability.md" in where
    assert any(file.startswith("dashboards/generated/grafana") for file in where), sorted(where)
    assert any(file.startswith("dashboards/generated/prometheus") for file in where)


@pytest.mark.parametrize(
    "metric", [each for each in collector.definitions() if each.name not in STOCK], ids=lambda metric: metric.name
)
def test_a_metric_of_ours_has_the_type_and_labels_of_its_metadata(metric):
    described = OWN[metric.name]
    assert metric.instrument == ("counter" if described.get("sum", {}).get("monotonic") else "gauge")
    assert set(metric.attributes) == set(described.get("attributes", ()))


def test_no_component_describes_a_metric_that_another_one_has():
    names = [
        name
        for file in COMPONENTS.rglob("metadata.yaml")
        for name in yaml.safe_load(file.read_text()).get("telemetry", {}).get("metrics", {})
    ]
    assert len(names) == len(set(names))
