"""The real library against a loopback server, with our instrumentor and that of its client active."""

from __future__ import annotations

import pytest
from support.scripted_openai import ScriptedOpenAI

from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.strands import StrandsInstrumentor

ARGUMENTS = {
    "add": {"a": 1, "b": 2},
    "helper": {"input": "do add"},
    "handoff_to_agent": {"agent_name": "two", "message": "go on"},
}


@pytest.fixture
def instrumented():
    instrumentors = (OpenAIInstrumentor(), StrandsInstrumentor())
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    yield
    for instrumentor in reversed(instrumentors):
        instrumentor.uninstrument()


@pytest.fixture
def server():
    with ScriptedOpenAI(**ARGUMENTS) as server:
        yield server
