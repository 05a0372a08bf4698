"""The real client and a service over HTTP; skipped where Tinker is not installed."""

from __future__ import annotations

import pytest

from otel_rl.instrumentors.tinker import TinkerInstrumentor
from otel_rl.instrumentors.tinker.clients import own_steps
from otel_rl.training import steps


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    monkeypatch.setattr(steps, "may_guess", True)
    monkeypatch.setenv("TINKER_API_KEY", "tml-of-a-test")
    own_steps.forget()
    instrumentor = TinkerInstrumentor()
    instrumentor.instrument()
    assert not instrumentor.missing
    yield
    instrumentor.uninstrument()


@pytest.fixture
def service():
    from tinker_service import Service

    service = Service()
    yield service
    service.shutdown()
    service.server_close()


@pytest.fixture
def client(service):
    import tinker

    return tinker.ServiceClient(base_url=service.address)


@pytest.fixture
def trained(client):
    made = client.create_lora_training_client(base_model="Qwen/Qwen3-8B", rank=8)
    # From 0.38 on it is a future.
    return made.result() if hasattr(made, "result") else made
