"""The translation of names, against the cases of prometheus/otlptranslator's own tests."""

from __future__ import annotations

import pytest

from dashboards.lib.names import label_name, prometheus_name, traceql_name
from otel_rl.semconv import attributes
from otel_rl.semconv.definitions import MetricDefinition


@pytest.mark.parametrize(
    ("name", "unit", "instrument", "expected"),
    [
        ("rl.train.steps", "{step}", "counter", "rl_train_steps_total"),
        ("rl.train.entropy", "{nat}", "gauge", "rl_train_entropy"),
        ("rl.train.entropy", "1", "gauge", "rl_train_entropy_ratio"),
        ("rl.train.clip_ratio", "1", "gauge", "rl_train_clip_ratio"),
        ("rl.reward.score", "1", "histogram", "rl_reward_score"),
        ("rl.loop.duration", "s", "histogram", "rl_loop_duration_seconds"),
        ("torch.distributed.collective.io", "By", "counter", "torch_distributed_collective_io_bytes_total"),
        ("system.filesystem.usage", "GiBy", "gauge", "system_filesystem_usage_gibibytes"),
        ("system.network.dropped", "By/s", "counter", "system_network_dropped_bytes_per_second_total"),
        ("system.disk.seconds", "s", "gauge", "system_disk_seconds"),
        ("envoy__rule_engine_zlib_buf_error", "", "gauge", "envoy_rule_engine_zlib_buf_error"),
        ("total.requests", "{request}", "counter", "requests_total"),
        ("broken.ratio.total", "1", "gauge", "broken_total_ratio"),
        ("metric", "foo/bar", "gauge", "metric_foo_per_bar"),
        ("metric", "{foo}/s", "gauge", "metric_per_second"),
        ("metric", "%", "gauge", "metric_percent"),
        ("3xx.responses", "{response}", "counter", "_3xx_responses_total"),
    ],
)
def test_a_metric_gets_the_name_that_prometheus_gives_it(name, unit, instrument, expected):
    assert prometheus_name(MetricDefinition(name, instrument, unit, "")) == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("rl.run.id", "rl_run_id"),
        ("gen_ai.tool.call.id", "gen_ai_tool_call_id"),
        ("a..b__c", "a_b_c"),
        ("1st", "key_1st"),
    ],
)
def test_an_attribute_gets_the_label_that_prometheus_gives_it(attribute, expected):
    assert label_name(attribute) == expected


def test_traceql_looks_for_the_run_on_the_resource_and_for_the_tool_on_the_span():
    assert traceql_name(attributes.RL_RUN_ID) == "resource.rl.run.id"
    assert traceql_name(attributes.GEN_AI_TOOL_NAME) == "span.gen_ai.tool.name"
