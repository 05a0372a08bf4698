"""Instruments the stand-ins."""

from __future__ import annotations

import sys

import pytest
import tinker_stand_in as stand_in

from otel_rl.instrumentors.tinker import TinkerInstrumentor
from otel_rl.instrumentors.tinker.clients import own_steps
from otel_rl.instrumentors.tinker_cookbook import TinkerCookbookInstrumentor
from otel_rl.training import steps, trajectory_shares


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    for name, module in stand_in.sys_modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(steps, "may_guess", True)
    stand_in.handled.clear()
    trajectory_shares.forget()
    own_steps.forget()
    instrumentors = TinkerInstrumentor(), TinkerCookbookInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
        assert not instrumentor.missing
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()
    trajectory_shares.forget()


@pytest.fixture
def service():
    client = stand_in.ServiceClient()
    yield client
    client.holder.close()


@pytest.fixture
def trained(service):
    return service.create_lora_training_client("Qwen/Qwen3-8B")
