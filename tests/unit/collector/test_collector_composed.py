"""One composition gives the text of a configuration and its values."""

from __future__ import annotations

import pytest

pytest.importorskip("ruamel.yaml")

from ruamel.yaml import YAML

from otel_rl.collector.checks import host
from otel_rl.collector.composed import compose
from otel_rl.collector.parts.choices import select
from otel_rl.collector.parts.variables import put_in

SELECTION = select("local", ["otlp"])


def test_values_are_those_of_the_text_with_the_variables_of_this_machine(tmp_path):
    environ = {
        "OTEL_RL_COLLECTOR_OTLP_ENDPOINT": "collector.invalid:4317",
        "OTEL_RL_COLLECTOR_GRPC_PORT": "5317",
        "OTEL_RL_COLLECTOR_DATA_DIR": str(tmp_path),
    }
    configuration = compose(SELECTION, environ)
    assert host.listens_on(configuration.values)["otlp grpc"].endswith(":5317")
    assert configuration.values == put_in(YAML(typ="safe").load(configuration.text), environ)


def test_for_another_machine_the_variables_stay():
    configuration = compose(SELECTION, None)
    assert "${env:OTEL_RL_COLLECTOR_GRPC_PORT" in host.listens_on(configuration.values)["otlp grpc"]
    assert configuration.values == YAML(typ="safe").load(configuration.text)
