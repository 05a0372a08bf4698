"""Boards and rules against the real Prometheus: it knows every name, and every query finds data."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from prometheus_server import DEFINITIONS, RUN, Prometheus

from dashboards.lib.names import label_name, prometheus_name
from dashboards.lib.rules import AlertRule
from dashboards.queries_of import BoardQuery, RuleQuery, panel_queries, rule_queries, variable_queries
from dashboards.rules import RULE_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.semconv.definitions import MetricDefinition

#: One worker of xdist has the server of this module.
pytestmark = pytest.mark.xdist_group("queries")
_RULE_SECONDS = 300

PANELS = [query for query in panel_queries(RUN) if query.datasource == "prometheus"]
RULES = list(rule_queries(RUN))
ALERTS = [
    rule for groups in RULE_FILES.values() for group in groups for rule in group.rules if isinstance(rule, AlertRule)
]


@pytest.fixture(scope="module")
def prometheus(
    prometheus_programs: Path, otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with Prometheus(prometheus_programs / "prometheus", folder) as server, server.with_engines(otelcol_rl):
        server.receive_run()
        server.receive_collector()
        server.receive_logged()
        deadline = time.monotonic() + _RULE_SECONDS
        while any(not server.query(rule.recorded) for rule in RULES) and time.monotonic() < deadline:
            time.sleep(0.2)
        yield server


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_prometheus_names_a_metric_and_its_labels_as_the_boards_do(
    prometheus: Prometheus, definition: MetricDefinition
):
    part = "_count" if definition.instrument == "histogram" else ""
    found = prometheus.query(f'{prometheus_name(definition)}{part}{{rl_run_id="{RUN}"}}')
    assert found
    labels = set().union(*(series["metric"] for series in found))
    assert {label_name(key) for key in definition.attributes} <= labels


@pytest.mark.parametrize("query", PANELS, ids=lambda query: f"{query.board}: {query.panel}")
def test_a_run_that_exported_each_series_once_fills_every_panel(prometheus: Prometheus, query: BoardQuery):
    assert prometheus.query(query.text), query.text


@pytest.mark.parametrize(
    "query", [query for query in PANELS if query.exemplar], ids=lambda query: f"{query.board}: {query.panel}"
)
def test_a_panel_with_exemplars_gets_trace_ids(prometheus: Prometheus, query: BoardQuery):
    now = time.time()
    found = prometheus.get("query_exemplars", query=query.text, start=str(now - 600), end=str(now + 60))
    assert any("trace_id" in exemplar["labels"] for series in found for exemplar in series["exemplars"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_evaluates_to_series_of_the_run_or_the_collector(prometheus: Prometheus, rule: RuleQuery):
    label, value = rule.label
    assert any(series["metric"].get(label) == value for series in prometheus.query(rule.text))
    assert prometheus.query(rule.recorded)


@pytest.mark.parametrize("variable", list(variable_queries(RUN)), ids=lambda query: f"{query.board}: {query.panel}")
def test_every_selector_offers_a_value(prometheus: Prometheus, variable: BoardQuery):
    if variable.panel == "run":
        found = prometheus.query(variable.text.removeprefix("query_result(").removesuffix(")"))
        assert [series["metric"] for series in found] == [{"rl_run_id": RUN}]
        return
    selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable.text).groups()
    assert prometheus.get(f"label/{label}/values", **{"match[]": selector})


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_runbook_that_an_alert_links_to_is_served(prometheus: Prometheus, alert: AlertRule):
    address = alert.annotations()["runbook_url"].replace("{{ $externalURL }}", prometheus.address)
    with urlopen(address, timeout=30) as page:  # our own server
        assert page.read().decode().startswith(f"# {alert.page or alert.name}\n")
