from __future__ import annotations

import importlib.util
import os

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here
from support.fake_models import FakeModels
from support.fake_openai import FakeOpenAI

# It would ask for prices at its import.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
# The library has an environment of its own.
collect_ignore_glob = [] if importlib.util.find_spec("litellm") else ["test_*.py"]


@pytest.fixture
def servers():
    """A server of OpenAI's protocol and one of the others."""
    with FakeOpenAI() as of_openai, FakeModels() as others:
        yield of_openai, others


@pytest.fixture
def instrumented(recorded):
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.aiohttp import AiohttpInstrumentor
    from otel_rl.instrumentors.httpx import HttpxInstrumentor
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    record_abandoned()
    recorded.clear()
    servers.forget()
    made = [kind() for kind in (AiohttpInstrumentor, HttpxInstrumentor, OpenAIInstrumentor)]
    for one in made:
        one.instrument(skip_dep_check=True)
    yield recorded
    for one in made:
        one.uninstrument()
