"""Traces to MLflow's OTLP route, with the real binary in front of a stand-in; metrics and logs go nowhere near it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from collector_process import CollectorProcess, wait_for
from otlp import metric_resource, span, trace_resource
from otlp_backend import OtlpBackend, Request

if TYPE_CHECKING:
    from pathlib import Path


def test_traces_go_to_the_route_of_mlflow_with_the_experiment_they_belong_to(otelcol_rl: Path, tmp_path: Path):
    requests: list[Request] = []
    came = threading.Event()

    def take(request: Request) -> int:
        requests.append(request)
        came.set()
        return 200

    with OtlpBackend(answer=take) as mlflow:
        variables = {
            "OTEL_RL_COLLECTOR_MLFLOW_URL": mlflow.url,
            "OTEL_RL_COLLECTOR_MLFLOW_EXPERIMENT_ID": "007",
            "OTEL_RL_COLLECTOR_DATA_DIR": str(tmp_path / "data"),
        }
        with CollectorProcess(otelcol_rl, ["local.yaml", "sinks/mlflow.yaml"], tmp_path, variables) as collector:
            collector.send("metrics", [metric_resource("rl.loop.current", 1.0)])
            collector.send("traces", [trace_resource([span("rl.loop")])])
            wait_for(came.is_set, "MLflow to have the trace")
            collector.stop()

    assert {(request.path, request.headers["x-mlflow-experiment-id"]) for request in requests} == {
        ("/v1/traces", "007")
    }
    assert mlflow.taken == ["rl.loop"]
    assert (tmp_path / "data" / "metrics.jsonl").stat().st_size
