"""The generated ways to N gateways: complete, disjoint, the same on every agent, and one disk queue each."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import gateways

CONDITION = re.compile(r"""condition: '(.*) >= "([0-9a-f]{2})" and (.*) <= "([0-9a-f]{2})"'\n +pipelines: \[(\S+)\]""")
SOME_NUMBERS = (1, 2, 3, 7, 100, 256)
SIGNALS = ("traces", "metrics", "logs")


def generated(number: int) -> dict[str, Any]:
    (part,) = gateways.parts(number)
    return dict(yaml.safe_load(part.text))


def owned(number: int) -> dict[str, range]:
    """Return the buckets of each pipeline, as the generated conditions deal them out."""
    (part,) = gateways.parts(number)
    found = {}
    for digits, first, again, last, pipeline in CONDITION.findall(part.text):
        assert digits == again
        found[pipeline] = range(int(first, 16), int(last, 16) + 1)
    return found


@given(st.integers(min_value=1, max_value=gateways.BUCKETS))
@settings(deadline=None)
def test_every_bucket_has_exactly_one_gateway_and_every_gateway_its_share(number: int):
    shares = owned(number)
    for signal in SIGNALS:
        own = [shares.pop(f"{signal}/gateway_{place}") for place in range(1, number + 1)]
        assert [bucket for share in own for bucket in share] == list(range(gateways.BUCKETS))
        assert max(map(len, own)) - min(map(len, own)) <= 1
    assert not shares


@pytest.mark.parametrize("number", SOME_NUMBERS)
def test_each_gateway_has_one_exporter_with_its_own_address_and_queue(number: int):
    exporters = generated(number)["exporters"]
    assert list(exporters) == [f"durable_otlp_grpc/gateway_{place}" for place in range(1, number + 1)]
    for place, exporter in enumerate(exporters.values(), start=1):
        assert exporter["endpoint"] == f"${{env:OTEL_RL_COLLECTOR_GATEWAY_{place}}}"
        assert place == 1 or exporter["sending_queue"]["storage"] == "queue_storage"


@pytest.mark.parametrize("number", SOME_NUMBERS)
def test_each_pipeline_of_a_gateway_ends_in_its_exporter(number: int):
    pipelines = generated(number)["service"]["pipelines"]
    for signal in SIGNALS:
        connector = f"routing/{signal}_by_gateway"
        way = {"receivers": [f"forward/{signal}_out"], "exporters": [connector]}
        assert pipelines[f"{signal}/gateway"] == way
        for place in range(1, number + 1):
            exporter = f"durable_otlp_grpc/gateway_{place}"
            assert pipelines[f"{signal}/gateway_{place}"] == {"receivers": [connector], "exporters": [exporter]}


def test_every_agent_generates_the_same():
    assert gateways.parts(3) == gateways.parts(3)
    assert 0x00 in owned(3)["traces/gateway_1"]
    assert 0xFF in owned(3)["traces/gateway_3"]


def test_what_has_no_bucket_goes_to_the_first_gateway():
    assert generated(2)["connectors"]["routing/logs_by_gateway"]["default_pipelines"] == ["logs/gateway_1"]


def test_a_gateway_is_told_how_many_share_the_budget():
    (part,) = gateways.gateway_parts(4)
    assert yaml.safe_load(part.text) == {"extensions": {"trace_budget": {"gateways": 4}}}


@pytest.mark.parametrize("number", [0, -1, 257])
def test_a_number_of_gateways_that_cannot_be_is_refused(number: int):
    with pytest.raises(Refused, match="from 1 to 256"):
        gateways.parts(number)
    with pytest.raises(Refused, match="from 1 to 256"):
        gateways.gateway_parts(number)
