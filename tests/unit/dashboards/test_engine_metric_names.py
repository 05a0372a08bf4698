"""The names of the engines' metrics in boards and rules are those that real engines answered with."""

from __future__ import annotations

import re

import pytest
from support.engine_metrics import ROUTER, SGLANG, VLLM

from dashboards.lib import engines
from dashboards.lib.names import prometheus_name

#: By its source only: that of vLLM's other way for a KV cache, which has the same form.
NOT_RECORDED = "vllm:mooncake_"
TARGETS = (engines.UP, engines.SCRAPED)


def labels(text: str, metric: str) -> set[str]:
    """The labels of the samples of a metric in what an engine answered."""
    samples = re.findall(rf"^{metric}(?:_bucket)?\{{(.*)\}} ", text, re.MULTILINE)
    assert samples, metric
    return {name for sample in samples for name in re.findall(r'(\w+)="', sample)}


@pytest.mark.parametrize(
    "metric",
    [one for one in engines.definitions() if one not in TARGETS and not one.name.startswith(NOT_RECORDED)],
    ids=lambda metric: metric.name,
)
def test_an_engine_and_its_router_answer_with_the_metric_and_its_labels(metric):
    text = VLLM if metric.name.startswith("vllm:") else SGLANG
    name = prometheus_name(metric)
    assert f"# TYPE {name} {metric.instrument}\n" in text
    assert set(metric.attributes) <= labels(text, name)
    if text is SGLANG:
        assert {*metric.attributes, "worker_addr"} <= labels(ROUTER, prometheus_name(engines.routed(metric)))
