"""An agent and the stack's gateway, as Prometheus and Loki know them."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from integration.collector.collector_process import CollectorProcess, wait_for
from integration.collector.otlp import log_resource, metric_resource, span, trace_resource, value

from dashboards.lib import collector
from dashboards.lib.names import prometheus_name
from dashboards.queries_of import panel_queries, rule_queries, variable_queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dashboards.queries_of import BoardQuery, RuleQuery

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

AGENT = "node-1"
#: Counters of what did not happen here have no series; their names are looked for in the program.
EVENTS_ONLY = {
    *collector.SEND_FAILED,
    *collector.NOT_QUEUED,
    *collector.LIMITED,
    collector.FAILED_REQUESTS,
    collector.OVERFLOW,
    collector.SIDE_SINK_DROPPED,
    collector.PUSHED_BACK,
    collector.REJECTED,
    collector.DEAD_LETTERS,
    collector.DEAD_LETTERS_LOST,
    collector.DAMAGED_FILES,
    collector.DAMAGED_REQUESTS,
    collector.MALFORMED,
    collector.CONTENT_REMOVED,
    collector.DROPPED_BY_REDACTION,
}


PANELS = [query for query in panel_queries("no run") if query.board == "otel-rl-collector"]
SELECTORS = [query for query in variable_queries("no run") if query.board == "otel-rl-collector"]
RULES = [query for query in rule_queries("no run") if query.label == ("job", collector.SERVICE)]


def get(url: str, **query: Any) -> Any:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


@pytest.fixture(scope="module")
def program(stack) -> Path:
    import services

    return services.build(services.ROOT / "otelcol-builder" / "build.py")


@pytest.fixture(scope="module")
def agent(stack, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """An agent before the stack's gateway that has passed one item of each signal, and a secret."""
    gateway = stack.addresses["otlp_grpc"].removeprefix("http://")
    environment = {
        "OTEL_RL_COLLECTOR_GATEWAY": gateway,
        "OTEL_RL_COLLECTOR_INSTANCE": AGENT,
        shipped_settings.SCRAPE_INTERVAL: "1s",
    }
    with CollectorProcess(program, ["agent.yaml"], tmp_path_factory.mktemp("agent"), environment) as running:
        running.send("traces", [trace_resource([span("rl.loop")])])
        running.send("metrics", [metric_resource("rl.train.loss", 0.5)])
        running.send("logs", [log_resource([{"body": value(f"password = {time.time_ns()}xQ")}])])
        yield running


def in_prometheus(stack, query: str) -> list[dict[str, Any]]:
    return get(f"{stack.addresses['prometheus']}/api/v1/query", query=query)


def test_boards_can_tell_agent_and_gateway_apart(stack, agent: CollectorProcess):
    query = f"count by (job, otel_rl_collector_role, instance) ({prometheus_name(collector.UPTIME)})"

    def found() -> dict[str, str]:
        labels = [series["metric"] for series in in_prometheus(stack, query)]
        return {each["otel_rl_collector_role"]: each["instance"] for each in labels if each["job"] == "otelcol-rl"}

    wait_for(lambda: {"agent", "gateway"} <= found().keys(), "both roles")
    assert found()["agent"] == AGENT
    assert found()["gateway"].endswith(stack.addresses["otlp_grpc"].rpartition(":")[2])


def test_every_metric_that_the_boards_name_is_one_of_the_real_program(stack, program: Path, agent: CollectorProcess):
    there = {definition for definition in collector.definitions() if definition not in EVENTS_ONLY}

    def missing() -> set[str]:
        names = {prometheus_name(definition) for definition in there}
        return names - {series["metric"]["__name__"] for series in in_prometheus(stack, '{job="otelcol-rl"}')}

    wait_for(lambda: not missing(), "every name")
    content = program.read_bytes()
    for definition in EVENTS_ONLY:
        last = definition.name.removeprefix("otelcol_").removeprefix("exporter_").split("redaction_")[-1]
        assert last.encode() in content, definition.name


def test_labels_of_the_real_series_are_those_that_the_boards_group_by(stack, agent: CollectorProcess):
    def has_its_labels(definition) -> bool:
        found = in_prometheus(stack, f'{prometheus_name(definition)}{{instance="{AGENT}"}}')
        return any(set(definition.attributes) <= series["metric"].keys() for series in found)

    for definition in (collector.QUEUE_SIZE, collector.UNHEALTHY, collector.FOLDER_FREE, collector.MASKED):
        wait_for(lambda definition=definition: has_its_labels(definition), definition.name)


def test_own_logs_of_both_are_in_loki(stack, agent: CollectorProcess):
    url = f"{stack.addresses['loki']}/loki/api/v1/query_range"
    for role, instance in (("agent", AGENT), ("gateway", ".+")):
        query = (
            f'{{service_name="otelcol-rl"}} | otel_rl_collector_role="{role}" | service_instance_id=~"{instance}" '
            '|= "Everything is ready"'
        )
        streams = wait_for(lambda query=query: get(url, query=query), f"the {role}'s own log")
        assert "rl_run_id" not in streams[0]["stream"]


@pytest.mark.parametrize("query", PANELS, ids=lambda query: f"{query.panel}/{query.datasource}")
def test_every_panel_of_the_board_has_data(stack, agent: CollectorProcess, query: BoardQuery):
    backend = {"prometheus": "/api/v1/query", "loki": "/loki/api/v1/query_range"}[query.datasource]
    url = stack.addresses[query.datasource] + backend
    wait_for(lambda: get(url, query=query.text), query.text)


@pytest.mark.parametrize("query", RULES, ids=lambda query: query.name)
def test_every_rule_has_data(stack, agent: CollectorProcess, query: RuleQuery):
    wait_for(lambda: in_prometheus(stack, query.text), query.text)


@pytest.mark.parametrize("query", SELECTORS, ids=lambda query: query.panel)
def test_every_selector_of_the_board_has_values(stack, agent: CollectorProcess, query: BoardQuery):
    selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query.text).groups()
    wait_for(lambda: any(label in series["metric"] for series in in_prometheus(stack, selector)), query.text)
