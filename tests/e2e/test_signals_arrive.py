"""What is sent to the gateway is found by query in Prometheus, Tempo and Loki."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest
from integration.collector.collector_process import SIGNAL_PATHS, wait_for
from integration.collector.otlp import log_resource, span, trace_resource, value

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

IDENTITY = {"rl.run.id": "run-7", "rl.rank": 1, "rl.role": "trainer", "service.instance.id": "instance-1"}
KEY = "sk-proj-Zq81mPlantedKeyThatMustNotLeave42"
PROMPT = "violet elephants"


def get(url: str, **query: Any) -> Any:
    """The JSON answer of a query, or None when there is nothing yet."""
    try:
        with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def send(stack, signal_name: str, resource: dict[str, Any]) -> None:
    body = json.dumps({SIGNAL_PATHS[signal_name]: [resource]}).encode()
    url = f"{stack.addresses['otlp_http']}/v1/{signal_name}"
    urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=30).close()


def step_trace() -> list[dict[str, Any]]:
    trace_id = os.urandom(16).hex()
    root = span("rl.loop", {"rl.loop.iteration": 3}, trace_id=trace_id)
    return [root, span("rl.rank.step", {"rl.rank": 1}, trace_id=trace_id, parent=root["spanId"])]


def loop_duration(exemplar: dict[str, Any], count: int) -> dict[str, Any]:
    now = time.time_ns()
    point = {
        "startTimeUnixNano": str(now - 10**9),
        "timeUnixNano": str(now),
        "count": str(count),
        "sum": 0.1 * count,
        "explicitBounds": [0.05, 0.5],
        "bucketCounts": ["0", str(count), "0"],
        "exemplars": [
            {
                "timeUnixNano": str(now),
                "asDouble": 0.1,
                "traceId": exemplar["traceId"],
                "spanId": exemplar["spanId"],
            }
        ],
    }
    metric = {
        "name": "rl.loop.duration",
        "unit": "s",
        "histogram": {"aggregationTemporality": 2, "dataPoints": [point]},
    }
    resource = {"attributes": value({"service.name": "train", **IDENTITY}, "attributes")}
    return {"resource": resource, "scopeMetrics": [{"scope": {"name": "test"}, "metrics": [metric]}]}


def spans_in_tempo(stack, trace_id: str) -> list[dict[str, Any]]:
    found = get(f"{stack.addresses['tempo']}/api/traces/{trace_id}") or {}
    scopes = [scope for batch in found.get("batches", []) for scope in batch["scopeSpans"]]
    return [each for scope in scopes for each in scope["spans"]]


def test_step_trace_is_found_by_id_and_by_search(stack):
    step = step_trace()
    send(stack, "traces", trace_resource(step, **IDENTITY))
    trace_id = step[0]["traceId"]
    wait_for(lambda: len(spans_in_tempo(stack, trace_id)) == 2, "both spans in Tempo")
    search = {"q": '{ resource.rl.run.id = "run-7" && name = "rl.rank.step" }', "limit": 20}

    def found() -> bool:
        answer = get(f"{stack.addresses['tempo']}/api/search", **search) or {}
        return trace_id.lstrip("0") in [each["traceID"] for each in answer.get("traces", [])]

    wait_for(found, "the trace by its run and span name")


def test_erroneous_rollout_is_kept_and_an_ordinary_one_is_not(stack):
    ordinary, failed = os.urandom(16).hex(), os.urandom(16).hex()
    send(stack, "traces", trace_resource([span("rl.rollout", trace_id=ordinary)], **IDENTITY))
    send(stack, "traces", trace_resource([span("rl.rollout", trace_id=failed, error=True)], **IDENTITY))
    wait_for(lambda: spans_in_tempo(stack, failed), "the failed rollout")
    assert spans_in_tempo(stack, ordinary) == []


def test_exemplar_of_a_metric_leads_to_a_trace_that_tempo_has(stack):
    step = step_trace()
    send(stack, "traces", trace_resource(step, **IDENTITY))
    send(stack, "metrics", loop_duration(step[0], 1))
    prometheus = f"{stack.addresses['prometheus']}/api/v1"
    selected = (
        'rl_loop_duration_seconds_bucket{rl_run_id="run-7", rl_rank="1", rl_role="trainer", job="train", le="0.5"}'
    )
    series = wait_for(lambda: get(f"{prometheus}/query", query=selected)["data"]["result"], "the series")
    assert series[0]["metric"]["instance"] == "instance-1"
    window = {"query": "rl_loop_duration_seconds_bucket", "start": time.time() - 600, "end": time.time() + 60}

    def trace_ids() -> list[str]:
        found = get(f"{prometheus}/query_exemplars", **window)["data"]
        return [exemplar["labels"]["trace_id"] for group in found for exemplar in group["exemplars"]]

    wait_for(lambda: step[0]["traceId"] in trace_ids(), "the exemplar")
    wait_for(lambda: spans_in_tempo(stack, step[0]["traceId"]), "its trace")


def test_first_value_of_a_counter_counts_as_an_increase(stack):
    now = time.time_ns()
    point = {"startTimeUnixNano": str(now - 10**9), "timeUnixNano": str(now), "asInt": "5"}
    counter = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}
    resource = {"attributes": value({"service.name": "train", **IDENTITY}, "attributes")}
    metric = {"name": "rl.train.steps", "unit": "{step}", "sum": counter}
    send(stack, "metrics", {"resource": resource, "scopeMetrics": [{"scope": {"name": "test"}, "metrics": [metric]}]})
    prometheus = f"{stack.addresses['prometheus']}/api/v1/query"
    query = 'increase(rl_train_steps_total{rl_run_id="run-7"}[5m]) > 0'
    wait_for(lambda: get(prometheus, query=query)["data"]["result"], "an increase from one export")


def test_log_record_arrives_with_event_name_trace_and_identity(stack):
    trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
    record = {"eventName": "rl.step", "body": value({"loss": 0.25}), "traceId": trace_id, "spanId": span_id}
    send(stack, "logs", log_resource([record], **IDENTITY))
    query = f'{{service_name="train"}} | event_name="rl.step" | trace_id="{trace_id}" | rl_run_id="run-7" | rl_rank="1"'
    url = f"{stack.addresses['loki']}/loki/api/v1/query_range"
    streams = wait_for(lambda: get(url, query=query)["data"]["result"], "the record in Loki")
    assert json.loads(streams[0]["values"][0][1]) == {"loss": 0.25}
    labels = get(f"{stack.addresses['loki']}/loki/api/v1/labels")["data"]
    assert set(labels) - {"__stream_shard__"} == {"service_name"}


def test_planted_key_and_prompt_are_in_no_backend(stack):
    trace_id = os.urandom(16).hex()
    exception = {"exception.type": "ValueError", "exception.message": f"bad {PROMPT} {KEY}"}
    content = {"gen_ai.input.messages": PROMPT, "note": KEY, "error.type": "ValueError"}
    planted = span("chat", content, trace_id=trace_id, status=f"{PROMPT} {KEY}", events=[("exception", exception)])
    send(stack, "traces", trace_resource([planted], **IDENTITY))
    records = [
        {"body": value(f"key {KEY}"), "traceId": trace_id, "attributes": value({**content, **exception}, "attributes")}
    ]
    send(stack, "logs", log_resource(records, **IDENTITY))
    spans = wait_for(lambda: spans_in_tempo(stack, trace_id), "the span")
    query = f'{{service_name="train"}} | trace_id="{trace_id}"'
    url = f"{stack.addresses['loki']}/loki/api/v1/query_range"
    logs = wait_for(lambda: get(url, query=query)["data"]["result"], "the record")
    for text in (json.dumps(spans), json.dumps(logs)):
        assert KEY not in text
        assert PROMPT not in text
    assert spans[0]["status"]["message"] == "[content removed]"


def test_collectors_own_metrics_are_in_prometheus(stack):
    url = f"{stack.addresses['prometheus']}/api/v1/query"
    query = '{__name__=~"otelcol_exporter_sent_spans.*", job="otelcol-rl"}'
    wait_for(lambda: get(url, query=query)["data"]["result"], "the collector's metrics")


@pytest.mark.parametrize("name", ["prometheus", "tempo", "loki"])
def test_no_backend_complained_about_its_configuration(stack, name: str):
    log = (stack.state / "logs" / f"{name}.log").read_text()
    assert "deprecated" not in log.lower()
