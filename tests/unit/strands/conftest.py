"""The real library against a loopback server, with our instrumentor and that of its client active."""

from __future__ import annotations

import pytest
from support.scripted_openai import ScriptedOpenAI

from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.strands import StrandsInstrumentor


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
    with ScriptedOpenAI(add={"a": 1, "b": 2}, helper={"input": "do add"}) as server:
        yield server
