"""Instrumentation of MLflow: metrics and parameters of a run.

One metric passes ``MlflowClient.log_metric``, several pass ``log_batch``, in the caller's thread also where MLflow
sends them later. Its own system metrics are left out: those of the machine are recorded without it.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class MLflowInstrumentor(Instrumentor):
    """Patches the client."""

    requirements: ClassVar = ("mlflow >= 3.0.1, < 4",)
    builds: ClassVar = ("mlflow-skinny",)
    modules: ClassVar = {"mlflow.tracking.client": "patch:patch_client"}
