"""The stand-in of an MLflow server, and the client in front of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.mlflow_server import StandIn

from otel_rl.process import process_identity
from otel_rl.trackers.mlflow import parameters, server
from otel_rl.trackers.mlflow.api import MlflowApi
from otel_rl.trackers.mlflow.run import MlflowRun
from otel_rl.trackers.mlflow.scalars import ScalarWriter
from otel_rl.trackers.mlflow.traces import TraceSender

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def mlflow() -> Iterator[StandIn]:
    """A server on loopback."""
    started = StandIn()
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process leads a run."""
    identity = replace(process_identity.current(), id="our-run", attempt="0.0.0", leads=True, rank=None)
    monkeypatch.setattr(process_identity, "_current", identity)
    monkeypatch.setattr(parameters.run_parts, "facts", dict)


class Client:
    """One process that writes to a server."""

    def __init__(self, url: str, named: str = "") -> None:
        self.run = MlflowRun(named)
        target = server.configured({"MLFLOW_TRACKING_URI": url})
        self.scalars = ScalarWriter(MlflowApi(target), self.run)
        self.traces = TraceSender(MlflowApi(target), self.run)


@pytest.fixture
def client(mlflow: StandIn, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of the server."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow.url)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "tried")
    return Client(mlflow.url)
