"""Every metric, label, span, attribute and event that a board or a rule names is in the registry."""

from __future__ import annotations

import re
from dataclasses import replace

import promql_parser
import pytest

from dashboards.boards.annotations import ALERTS
from dashboards.lib import collector, engines
from dashboards.lib.names import RESOURCE_ATTRIBUTES, label_name, prometheus_name
from dashboards.lib.promql import series
from dashboards.lib.rules import AlertRule
from dashboards.lib.search import EVENT_NAME
from dashboards.queries_of import annotation_queries, panel_queries, rule_queries, variable_queries
from dashboards.rules import RULE_FILES
from dashboards.rules.logged import logged_names
from otel_rl.health.rule_table import INPUTS
from otel_rl.semconv import attributes, events, metrics, spans
from otel_rl.semconv.definitions import EventDefinition, MetricDefinition, SpanDefinition

RULES = [rule for groups in RULE_FILES.values() for group in groups for rule in group.rules]
RECORDED = {rule.name for rule in RULES if not isinstance(rule, AlertRule)}
#: What Prometheus promotes to labels; the stack's configuration and the boards agree on it.
PROMOTED = {label_name(key) for key in (attributes.RL_RUN_ID, attributes.RL_RANK, attributes.RL_ROLE)}


def defined(module, kind):
    return [value for value in vars(module).values() if isinstance(value, kind)]


ATTRIBUTES = {value for name, value in vars(attributes).items() if name.isupper() and isinstance(value, str)}
EVENTS = {event.name for event in defined(events, EventDefinition)}
SPANS = {span.type for span in defined(spans, SpanDefinition)}


BESIDE = {re.sub("[^A-Za-z0-9_:]", "_", key) for one in INPUTS.values() for key in one.not_beside}
TRAINERS = {"train_", *(name for key in INPUTS for name in logged_names(key)), *BESIDE}


def known_labels():
    """Prometheus name of each series -> the labels that its points may carry."""
    known = {}
    for metric in defined(metrics, MetricDefinition):
        labels = {label_name(key) for key in metric.attributes} | PROMOTED
        name = prometheus_name(metric)
        if metric.instrument == "histogram":
            known |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            known[name] = labels
    whose = {label_name(key) for key in collector.WHO}
    for metric in collector.definitions():
        known[prometheus_name(metric)] = {label_name(key) for key in metric.attributes} | whose
    served = PROMOTED | {engines.JOB, engines.INSTANCE}
    for metric in engines.definitions():
        labels = {*metric.attributes, *served}
        parts = ("_bucket", "_sum", "_count") if metric.instrument == "histogram" else ("",)
        for name in map(prometheus_name, (metric, engines.routed(metric))):
            known |= {f"{name}{part}": labels | ({"le"} if part == "_bucket" else set()) for part in parts}
    kinds = (attributes.RL_HEALTH_CODE, attributes.RL_RUN_END_STATUS)
    recorded = PROMOTED | whose | {collector.EXPORTER, collector.SIGNAL, *map(label_name, kinds)}
    recorded |= {engines.MODEL, "quantile"}
    return (
        known | dict.fromkeys(RECORDED, recorded) | {ALERTS: PROMOTED | whose | {"alertname", "alertstate", "severity"}}
    )


def selectors(expression):
    """The vector selectors of a parsed query."""
    children = {
        promql_parser.AggregateExpr: lambda e: [e.expr],
        promql_parser.BinaryExpr: lambda e: [e.lhs, e.rhs],
        promql_parser.Call: lambda e: e.args,
        promql_parser.MatrixSelector: lambda e: [e.vector_selector],
        promql_parser.ParenExpr: lambda e: [e.expr],
        promql_parser.SubqueryExpr: lambda e: [e.expr],
        promql_parser.UnaryExpr: lambda e: [e.expr],
        promql_parser.NumberLiteral: lambda e: [],
        promql_parser.StringLiteral: lambda e: [],
    }
    if isinstance(expression, promql_parser.VectorSelector):
        return [expression]
    return [found for child in children[type(expression)](expression) for found in selectors(child)]


def unknown_names(promql: str) -> set[str]:
    """Metrics and labels of a query that neither the registry nor a recording rule explains."""
    known = known_labels()
    unknown = set()
    every_label = set().union(*known.values())
    for selector in selectors(promql_parser.parse(promql)):
        labels = {matcher.name for matcher in selector.matchers.matchers}
        if labels == {"__name__"}:
            # Of several names, which are those of trainers.
            unknown |= set(re.findall(r"\w+", selector.matchers.matchers[0].value)) - TRAINERS
            continue
        unknown |= {selector.name} if selector.name not in known else labels - known[selector.name]
    grouping = re.findall(r"\b(?:by|on|group_left|group_right) \(([^)]*)\)", promql)
    return unknown | {label for labels in grouping for label in re.findall(r"\w+", labels)} - every_label


PANELS = list(panel_queries("r"))
PROMQL = [query.text for query in [*PANELS, *annotation_queries("r")] if query.datasource == "prometheus"]


@pytest.mark.parametrize("promql", [*PROMQL, *(rule.text for rule in rule_queries("r"))])
def test_promql_names_only_what_the_registry_defines(promql):
    assert not unknown_names(promql)


@pytest.mark.parametrize("variable", list(variable_queries("r")), ids=lambda query: query.panel)
def test_a_selector_lists_a_label_that_its_series_carry(variable):
    if variable.panel == "run":
        assert not unknown_names(variable.text.removeprefix("query_result(").removesuffix(")"))
        return
    selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable.text).groups()
    assert not unknown_names(selector)
    assert label in known_labels()[promql_parser.parse(selector).name]


def test_a_metric_that_the_registry_does_not_define_is_found():
    renamed = replace(metrics.RL_LOOP_DURATION, name="rl.loop.length")
    assert unknown_names(f"rate({series(renamed, part='sum', run=None)}[5m])") == {"rl_loop_length_seconds_sum"}


def test_a_changed_unit_or_instrument_of_a_metric_is_found():
    assert unknown_names(series(replace(metrics.RL_TRAIN_KL, unit="1"), run=None)) == {"rl_train_kl_ratio"}
    assert unknown_names(series(replace(metrics.RL_TRAIN_KL, instrument="counter"), run=None)) == {"rl_train_kl_total"}


def test_a_label_that_a_metric_does_not_carry_is_found():
    promql = f'sum by (le, sample_id) ({prometheus_name(metrics.RL_TRAIN_KL)}{{gen_ai_tool_name="x"}})'
    assert unknown_names(promql) == {"gen_ai_tool_name", "sample_id"}


@pytest.mark.parametrize("query", [q for q in PANELS if q.datasource == "tempo"], ids=lambda query: query.panel)
def test_traceql_names_only_spans_and_attributes_of_the_registry_in_their_scope(query):
    scoped = re.findall(r"\b(resource|span)\.([a-z][a-z0-9_.]+)", query.text)
    assert scoped
    for scope, attribute in scoped:
        assert attribute in ATTRIBUTES
        assert (scope == "resource") == (attribute in RESOURCE_ATTRIBUTES)
    assert set(re.findall(r'(?<![.\w])name = "([^"]+)"', query.text)) <= SPANS
    assert 'resource.rl.run.id = "r"' in query.text
    assert query.text.count("{") == query.text.count("}") == 1


@pytest.mark.parametrize("query", [q for q in PANELS if q.datasource == "loki"], ids=lambda query: query.panel)
def test_logql_names_only_labels_and_events_of_the_registry(query):
    known = {label_name(key) for key in (*ATTRIBUTES, collector.ROLE, EVENT_NAME)}
    labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query.text) + re.findall(r"\{\{\.(\w+)\}\}", query.text)
    assert set(labels) <= known
    assert '| rl_run_id="r"' in query.text or query.text.count('{service_name="otelcol-rl"} | otel_rl_collector_role=~')
    for names in re.findall(r'event_name=~?"([^"]+)"', query.text):
        assert set(names.replace("[.]", ".").split("|")) <= EVENTS
